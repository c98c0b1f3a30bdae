//! Files become objects: in parts, completed last, so that an object is whole or absent.
//!
//! Contract: [`upload`] sends a short file in one request. A longer file goes in parts, several at
//! a time; the object appears when the store has all parts and the last request completes it. A
//! failed or stopped upload is aborted, and the store frees the parts. While parts are sent, a
//! small object next to the new one, with the suffix [`MARKER_SUFFIX`], records who uploads the new
//! object, since when, and under which number. After a kill, [`unfinished`] finds such markers, and
//! [`abort`] aborts the upload and removes the marker. Uploads without a marker belong to other
//! programs, and stay. The upload of a job on this machine is in use while the job runs. An upload
//! of another machine is in use while its marker is younger than [`SILENCE_MAX`]; an upload renews
//! its marker every [`RENEW_EVERY`].
//!
//! The file is read through the device below. The client sends a checksum with each part, which the
//! store verifies (S3: SHA-256, unless `AWS_CHECKSUM_ALGORITHM` says otherwise).
//!
//! N.B. a kill between the first request of an upload and the request for its marker leaves an
//! upload that no marker names; so does a stop during the first request, if the store begins the
//! upload but its answer comes too late. A bucket rule that aborts old uploads removes such an
//! upload.
//!
//! Bounds: [`ROOM_BYTES`] of parts in flight, or one longer part, within the memory that the caller
//! allows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt as _, PutPayload, PutResult};
use outcore_io::drive::objects::{Unfinished, UploadWatch};
use outcore_io::drive::owner::Owner;
use outcore_io::drive::{Access, Device, FileId, IoBuf, Op, Queue, Request};
use outcore_io::memory::{Budget, Buf, Pool, block_ceil};
use outcore_io::{Error, Kind, Result};

use crate::address::{Address, MARKER_SUFFIX};
use crate::cloud::{Cloud, Object, Store};
use crate::fault::explain;
use crate::get;

/// The first line of a marker.
const MARKER_TEXT: &str = "upload of outcore, version 1";
/// Length of a part, unless there would be too many parts.
const PART_BYTES: u64 = 8 << 20;
/// Memory of the parts in flight, unless a single part is longer.
const ROOM_BYTES: u64 = 8 * PART_BYTES;
/// Stores take at most 10,000 parts.
const PARTS_MAX: u64 = 9_990;
/// Time after which an upload renews its marker.
const RENEW_EVERY: Duration = Duration::from_secs(300);
/// Age at which a marker of another machine counts as left over.
const SILENCE_MAX: Duration = Duration::from_secs(3600);
const WAIT: Duration = Duration::from_millis(50);
const WRITE: &str = "write object";
const LOOK: &str = "look for uploads";
const ABORT: &str = "abort upload";

/// The number of a part, and the result of sending it.
type Sent = (usize, std::result::Result<PartId, object_store::Error>);

/// Shared bytes of a buffer.
struct Shared(Buf);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Makes the object of `address` from the file `from` of `device`.
///
/// # Errors
/// As [`Stores::upload`](outcore_io::drive::Stores::upload).
pub(crate) fn upload(
    cloud: &Cloud,
    device: &Arc<dyn Device>,
    from: &Path,
    address: &Address,
    memory_bytes: u64,
    watch: UploadWatch<'_>,
) -> Result<()> {
    let file = device.open(from, Access::Read)?;
    let len_bytes = device.facts(file).map(|facts| facts.len_bytes);
    let done = len_bytes.and_then(|len_bytes| {
        let part_bytes = part_bytes_of(len_bytes);
        let room_bytes = memory_bytes.min(ROOM_BYTES).max(part_bytes);
        let count = (room_bytes / part_bytes).min(len_bytes.div_ceil(part_bytes).max(1));
        // If the memory is smaller than a part, the pool fails.
        let budget = Budget::new(room_bytes.min(memory_bytes.max(PART_BYTES)));
        let (slot_bytes, count) = (part_bytes as usize, count as usize);
        let pool = Pool::new(&budget, "parts of the upload", slot_bytes, count)?;
        let upload = Upload {
            cloud,
            store: cloud.store(address)?,
            address,
            location: address.location(WRITE)?,
            pool,
            reader: FileReader {
                queue: device.queue(1)?,
                file,
                path: from.to_path_buf(),
                len_bytes,
            },
            part_bytes,
            watch,
        };
        upload.run()
    });
    device.close(file);
    done
}

/// Length of the parts of a file.
fn part_bytes_of(len_bytes: u64) -> u64 {
    let least = len_bytes.div_ceil(PARTS_MAX);
    least.max(PART_BYTES).next_multiple_of(1 << 20)
}

/// One upload.
struct Upload<'a> {
    cloud: &'a Cloud,
    store: Arc<Store>,
    address: &'a Address,
    location: Key,
    pool: Pool,
    reader: FileReader,
    part_bytes: u64,
    watch: UploadWatch<'a>,
}

impl Upload<'_> {
    fn run(mut self) -> Result<()> {
        let parts = self.store.parts.clone();
        match parts.filter(|_| self.reader.len_bytes > self.part_bytes) {
            Some(parts) => self.send_parts(&parts),
            None => {
                let bytes = self.reader.read(&self.pool, 0)?;
                let sent_bytes = bytes.len() as u64;
                (self.watch.check)()?;
                let put = self.store.objects.put(&self.location, bytes.into());
                self.make(put)?;
                (self.watch.advance)(sent_bytes);
                Ok(())
            }
        }
    }

    fn explain(&self, error: &object_store::Error) -> Error {
        explain(WRITE, self.address, error)
    }

    /// Waits for the request that makes the object.
    fn make(&self, request: impl Future<Output = object_store::Result<PutResult>>) -> Result<()> {
        let done = self.cloud.wait_for_end(request);
        let done = done.map_err(|error| match error.kind() {
            Kind::Interrupted => error.hint("look for the object in the store: it may be there"),
            _ => error,
        });
        done?.map(|_| ()).map_err(|error| self.explain(&error))
    }

    /// Sends all parts and completes the object, or aborts.
    fn send_parts(&mut self, parts: &Arc<dyn MultipartStore>) -> Result<()> {
        let begin = parts.create_multipart(&self.location);
        let begun = self.cloud.wait_for_end(begin)?;
        let id = begun.map_err(|error| self.explain(&error))?;
        let marker = Marker::new(self.cloud, &self.store, self.address, &id)?;
        let sent = marker
            .renew()
            .and_then(|()| self.send_each(parts, &id, &marker));
        let done = sent.and_then(|list| {
            (self.watch.check)()?;
            self.make(parts.complete_multipart(&self.location, &id, list))
        });
        if let Err(error) = done {
            // The wish to stop counts, and not the failure that it led to.
            let error = match error.kind() {
                Kind::Interrupted => error,
                _ => (self.watch.check)().err().unwrap_or(error),
            };
            let abort = parts.abort_multipart(&self.location, &id);
            let aborted = self.cloud.wait_for_end(abort);
            if matches!(aborted, Ok(Ok(()))) {
                let _ = marker.remove();
                return Err(error);
            }
            return Err(self.left_over(error));
        }
        // Not an error: a marker without an upload does no harm, and a store may forbid its
        // removal.
        let _ = marker.remove();
        Ok(())
    }

    /// The error of an upload that could not be aborted: its marker stays.
    fn left_over(&self, error: Error) -> Error {
        let place = &self.address.place;
        let clean =
            format!("remove what is left of the upload with `outcore scratch clean {place}`");
        error.hint_left(&clean)
    }

    fn send_each(
        &mut self,
        parts: &Arc<dyn MultipartStore>,
        id: &str,
        marker: &Marker<'_>,
    ) -> Result<Vec<PartId>> {
        let count = self.reader.len_bytes.div_ceil(self.part_bytes) as usize;
        let (sender, sent): (Sender<Sent>, Receiver<Sent>) = channel();
        let mut list: Vec<Option<PartId>> = (0..count).map(|_| None).collect();
        let (mut next, mut has, mut renewed) = (0, 0, Instant::now());
        // Aborts the parts in flight when it is dropped.
        let mut tasks = tokio::task::JoinSet::new();
        let handle = self.cloud.handle()?;
        while has < count {
            (self.watch.check)()?;
            if renewed.elapsed() > RENEW_EVERY {
                marker.renew()?;
                renewed = Instant::now();
            }
            while next < count && self.pool.free_slots() > 0 {
                let bytes = self
                    .reader
                    .read(&self.pool, next as u64 * self.part_bytes)?;
                let (parts, location) = (Arc::clone(parts), self.location.clone());
                let (id, sender, number) = (id.to_owned(), sender.clone(), next);
                let put = async move {
                    let payload = PutPayload::from(bytes);
                    let put = parts.put_part(&location, &id, number, payload).await;
                    // The receiver is gone if the upload has failed.
                    let _ = sender.send((number, put));
                };
                tasks.spawn_on(put, &handle);
                next += 1;
            }
            let Ok((number, part)) = sent.recv_timeout(WAIT) else {
                continue;
            };
            list[number] = Some(part.map_err(|error| self.explain(&error))?);
            has += 1;
            let start_bytes = number as u64 * self.part_bytes;
            (self.watch.advance)(self.part_bytes.min(self.reader.len_bytes - start_bytes));
        }
        Ok(list.into_iter().flatten().collect())
    }
}

/// Reads the file part by part.
struct FileReader {
    queue: Box<dyn Queue>,
    file: FileId,
    path: PathBuf,
    len_bytes: u64,
}

impl FileReader {
    /// The bytes that start at `at_bytes`, as many as a buffer of `pool` holds.
    fn read(&mut self, pool: &Pool, at_bytes: u64) -> Result<Bytes> {
        let left_bytes = self.len_bytes - at_bytes;
        let wanted = left_bytes.min(pool.slot_bytes() as u64) as usize;
        if wanted == 0 {
            return Ok(Bytes::new());
        }
        let no_buffer = || Error::new(Kind::Memory, WRITE, "no buffer is free");
        let mut buf = pool.take().ok_or_else(no_buffer)?;
        let buf = buf.split_to(block_ceil(wanted as u64) as usize);
        self.queue.submit(Request {
            token: 0,
            op: Op::Read,
            file: self.file,
            drive_index: 0,
            offset_bytes: at_bytes,
            buf: IoBuf::from(buf),
        });
        let mut done = Vec::new();
        while done.is_empty() {
            self.queue.complete(Some(WAIT), &mut done)?;
        }
        let completion = done.remove(0);
        let read = completion.result;
        let read = read.map_err(|errno| Error::errno(WRITE, errno).path(&self.path))?;
        if read < wanted {
            let cause = "the finished file became shorter while it was uploaded";
            return Err(Error::corrupt(WRITE, cause).path(&self.path));
        }
        let buf = completion.request.buf.into_whole();
        Ok(Bytes::from_owner(Shared(buf)).slice(..wanted))
    }
}

/// The object that names an upload.
struct Marker<'a> {
    cloud: &'a Cloud,
    store: Arc<Store>,
    address: Address,
    location: Key,
    text: String,
}

impl<'a> Marker<'a> {
    fn new(cloud: &'a Cloud, store: &Arc<Store>, of: &Address, id: &str) -> Result<Self> {
        let address = of.with_key(&format!("{}{MARKER_SUFFIX}", of.key));
        let owner = Owner::this();
        Ok(Marker {
            cloud,
            store: Arc::clone(store),
            location: address.location(WRITE)?,
            address,
            text: format!(
                "{MARKER_TEXT}\nupload {id}\nboot {}\nprocess {}\nstarted {}\n",
                owner.boot, owner.process, owner.started
            ),
        })
    }

    fn renew(&self) -> Result<()> {
        let put = self
            .store
            .objects
            .put(&self.location, self.text.clone().into());
        let put = self.cloud.wait(put)?;
        put.map(|_| ())
            .map_err(|error| explain(WRITE, &self.address, &error))
    }

    fn remove(&self) -> Result<()> {
        let remove = self.store.objects.delete(&self.location);
        let removed = self.cloud.wait_for_end(remove)?;
        removed.map_err(|error| explain(ABORT, &self.address, &error))
    }
}

/// The contents of a marker.
struct Told {
    id: String,
    owner: Owner,
}

impl Told {
    /// Parses a marker; `None` if outcore did not write it.
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(MARKER_TEXT)?;
        let value = |name: &str| {
            let mut lines = rest.lines();
            lines.find_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(' ')
                    .map(str::to_owned)
            })
        };
        Some(Told {
            id: value("upload")?,
            owner: Owner {
                boot: value("boot")?,
                process: value("process")?,
                started: value("started")?,
            },
        })
    }

    fn is_in_use(&self, age: Duration) -> bool {
        match self.owner.is_alive() {
            Some(is_alive) => is_alive,
            None => age < SILENCE_MAX,
        }
    }
}

fn told(cloud: &Cloud, marker: &Object) -> Result<Option<Told>> {
    let range = 0..marker.facts.size.min(4096);
    if range.is_empty() {
        return Ok(None);
    }
    let bytes = cloud.wait(get::read(marker, range, cloud.gets()))??;
    Ok(Told::parse(&String::from_utf8_lossy(&bytes)))
}

/// How long ago a time was; zero if it is in the future.
fn age_of(facts: &ObjectMeta) -> Duration {
    let then = SystemTime::from(facts.last_modified);
    then.elapsed().unwrap_or_default()
}

/// The unfinished uploads below the folder of `address`.
///
/// # Errors
/// I/O.
pub(crate) fn unfinished(cloud: &Cloud, address: &Address) -> Result<Vec<Unfinished>> {
    let mut found = Vec::new();
    for facts in cloud.list(address, &address.key)? {
        let key = facts.location.to_string();
        let Some(of) = key.strip_suffix(MARKER_SUFFIX) else {
            continue;
        };
        // Azure's list has ETags without the quotes that its other answers have.
        let marker = cloud.find(&address.with_key(&key).path())?;
        let age = age_of(&marker.facts);
        if let Some(told) = told(cloud, &marker)? {
            found.push(Unfinished {
                object: address.with_key(of).path(),
                age,
                is_in_use: told.is_in_use(age),
            });
        }
    }
    found.sort_by(|one, other| one.object.cmp(&other.object));
    Ok(found)
}

/// Aborts the upload of the object of `address`, and removes its marker.
///
/// # Errors
/// I/O. Usage: its job still runs.
pub(crate) fn abort(cloud: &Cloud, address: &Address) -> Result<()> {
    let marker_address = address.with_key(&format!("{}{MARKER_SUFFIX}", address.key));
    let marker = cloud.find(&marker_address.path())?;
    let Some(told) = told(cloud, &marker)? else {
        return Ok(());
    };
    if told.is_in_use(age_of(&marker.facts)) {
        return Err(Error::usage(ABORT, "the upload is in use")
            .path(address.path())
            .hint("end its job first"));
    }
    if let Some(parts) = &marker.store.parts {
        let location = address.location(LOOK)?;
        match cloud.wait(parts.abort_multipart(&location, &told.id))? {
            // It has been completed or aborted.
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(explain(ABORT, address, &error)),
        }
    }
    let removed = cloud.wait(marker.store.objects.delete(&marker.location))?;
    removed.map_err(|error| explain(ABORT, &marker_address, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_with_the_file_so_that_stores_take_their_number() {
        assert_eq!(part_bytes_of(1), PART_BYTES);
        for len_bytes in [1 << 30, 1 << 40, 5 << 40_u64] {
            let part_bytes = part_bytes_of(len_bytes);
            assert!(len_bytes.div_ceil(part_bytes) <= PARTS_MAX, "{len_bytes}");
        }
    }

    #[test]
    fn an_upload_is_in_use_while_its_process_runs_or_its_marker_is_young() {
        let age = Duration::from_secs(1);
        let this = Told {
            id: "1".into(),
            owner: Owner::this(),
        };
        assert!(this.is_in_use(SILENCE_MAX * 2));
        let ended = Told {
            owner: Owner {
                started: "1".into(),
                ..Owner::this()
            },
            id: "1".into(),
        };
        assert!(!ended.is_in_use(age));
        let elsewhere = Told {
            owner: Owner {
                boot: "another".into(),
                ..Owner::this()
            },
            id: "1".into(),
        };
        assert!(elsewhere.is_in_use(age) && !elsewhere.is_in_use(SILENCE_MAX));
    }

    #[test]
    fn only_our_markers_name_uploads() {
        assert!(Told::parse("something else").is_none());
        let text = format!("{MARKER_TEXT}\nupload a b\nboot x\nprocess 1\nstarted 2\n");
        assert_eq!(Told::parse(&text).unwrap().id, "a b");
    }
}
