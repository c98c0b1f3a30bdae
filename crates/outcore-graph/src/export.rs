//! Exports a graph as a SciPy sparse matrix: `.npz`, which `scipy.sparse.load_npz` reads.
//!
//! Contract: [`export_npz`] writes one file, absent or whole: a matrix by rows (csr) with an entry
//! for each edge from its row to its column. Parallel edges have an entry each; undirected edges
//! are in both directions. Entries are the weights as the graph stores them, or 1 as `float32`.
//! Columns ascend in each row. Indices are `int32` if that is enough, otherwise `int64`, as SciPy
//! chooses. If numeric ids were relabelled, the array `ids` has them in the order of rows; SciPy
//! ignores it. The archive is not compressed. Checksums follow its members, so it is written from
//! front to back (PKWARE's APPNOTE, sections 4.3.9 and 4.5.3).
//!
//! Bounds: eight bytes per vertex, eight more with ids, and lists of half a million neighbours. The
//! lists are read once, and once more with weights.

use std::path::Path;
use std::sync::Arc;

use flate2::Crc;
use outcore::{Error, Job, Kind, Result};
use outcore_io::output::{Room, ShardPlan, StagedOutput};
use outcore_io::port::Volume;
use outcore_io::units;

use crate::format::weight::WeightType;
use crate::graph::held::{HeldLists, ListHolder, runs};
use crate::graph::names::Names;
use crate::graph::state::{State, StateBytes};
use crate::graph::{Direction, Graph};
use outcore::primitives::appended::{AppendedFile, write_files};

const KERNEL: &str = "export graph";
const BUFFER_BYTES: usize = 256 << 10;
/// A bound on all headers and the directory.
const HEADERS_BYTES: u64 = 8192;
/// Numbers that are appended at once.
const NUMBERS_AT_ONCE: usize = 4096;
/// Larger sizes do not fit into four bytes of the directory, and are in a longer field.
const LONG: u64 = u32::MAX as u64;

/// A written member of the archive.
struct Member {
    name: &'static str,
    at_bytes: u64,
    len_bytes: u64,
    crc: u32,
}

/// The archive so far.
struct Archive {
    file: AppendedFile,
    len_bytes: u64,
    crc: Crc,
    members: Vec<Member>,
}

impl Archive {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.crc.update(bytes);
        self.len_bytes += bytes.len() as u64;
        self.file.append(bytes)
    }

    /// Writes an array; `fill` appends its numbers.
    fn array(
        &mut self,
        name: &'static str,
        descr: &str,
        shape: &str,
        fill: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let at_bytes = self.len_bytes;
        let mut head = b"PK\x03\x04".to_vec();
        // ZIP version 4.5; checksum and lengths follow the data; not compressed; no time.
        push_all(&mut head, &[45, 8, 0, 0, 33]);
        head.extend_from_slice(&[0; 4]);
        head.extend_from_slice(&[0xFF; 8]);
        push_all(&mut head, &[name.len() as u16, 20]);
        head.extend_from_slice(name.as_bytes());
        push_all(&mut head, &[1, 16]);
        head.extend_from_slice(&[0; 16]);
        self.append(&head)?;
        self.crc = Crc::new();
        let from_bytes = self.len_bytes;
        self.append(&npy_header(descr, shape))?;
        fill(self)?;
        let (crc, len_bytes) = (self.crc.sum(), self.len_bytes - from_bytes);
        let mut behind = b"PK\x07\x08".to_vec();
        behind.extend_from_slice(&crc.to_le_bytes());
        behind.extend_from_slice(&len_bytes.to_le_bytes());
        behind.extend_from_slice(&len_bytes.to_le_bytes());
        self.append(&behind)?;
        self.members.push(Member {
            name,
            at_bytes,
            len_bytes,
            crc,
        });
        Ok(())
    }

    /// Appends numbers of four or eight bytes.
    fn numbers(&mut self, numbers: impl Iterator<Item = u64>, is_wide: bool) -> Result<()> {
        let width = if is_wide { 8 } else { 4 };
        let mut bytes = Vec::with_capacity(8 * NUMBERS_AT_ONCE);
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
            if bytes.len() >= width * NUMBERS_AT_ONCE {
                self.append(&bytes)?;
                bytes.clear();
            }
        }
        self.append(&bytes)
    }

    /// Writes the directory, and returns the total length.
    fn finish(mut self) -> Result<u64> {
        let at_bytes = self.len_bytes;
        let mut directory = Vec::new();
        for member in &self.members {
            let (len, at) = (member.len_bytes, member.at_bytes);
            let mut extra = Vec::new();
            for number in [len, len, at] {
                if number >= LONG {
                    extra.extend_from_slice(&number.to_le_bytes());
                }
            }
            let field_bytes = if extra.is_empty() {
                0
            } else {
                4 + extra.len() as u16
            };
            directory.extend_from_slice(b"PK\x01\x02");
            push_all(&mut directory, &[45, 45, 8, 0, 0, 33]);
            directory.extend_from_slice(&member.crc.to_le_bytes());
            for number in [len, len] {
                directory.extend_from_slice(&(number.min(LONG) as u32).to_le_bytes());
            }
            push_all(
                &mut directory,
                &[member.name.len() as u16, field_bytes, 0, 0, 0, 0, 0],
            );
            directory.extend_from_slice(&(at.min(LONG) as u32).to_le_bytes());
            directory.extend_from_slice(member.name.as_bytes());
            if field_bytes > 0 {
                push_all(&mut directory, &[1, extra.len() as u16]);
                directory.extend(extra);
            }
        }
        let (count, len_bytes) = (self.members.len() as u16, directory.len() as u64);
        if at_bytes >= LONG {
            let end_at_bytes = at_bytes + len_bytes;
            directory.extend_from_slice(b"PK\x06\x06");
            directory.extend_from_slice(&44_u64.to_le_bytes());
            push_all(&mut directory, &[45, 45, 0, 0, 0, 0]);
            for number in [count.into(), count.into(), len_bytes, at_bytes] {
                directory.extend_from_slice(&u64::to_le_bytes(number));
            }
            directory.extend_from_slice(b"PK\x06\x07");
            push_all(&mut directory, &[0, 0]);
            directory.extend_from_slice(&end_at_bytes.to_le_bytes());
            push_all(&mut directory, &[1, 0]);
        }
        directory.extend_from_slice(b"PK\x05\x06");
        push_all(&mut directory, &[0, 0, count, count]);
        directory.extend_from_slice(&(len_bytes as u32).to_le_bytes());
        directory.extend_from_slice(&(at_bytes.min(LONG) as u32).to_le_bytes());
        push_all(&mut directory, &[0]);
        self.append(&directory)?;
        let len_bytes = self.len_bytes;
        self.file.finish()?;
        Ok(len_bytes)
    }
}

fn push_all(bytes: &mut Vec<u8>, words: &[u16]) {
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.extend(words);
}

fn npy_header(descr: &str, shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let unpadded = 10 + text.len() + 1;
    text.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Writes `graph` to `path`; returns the number of entries and the length of the file.
///
/// # Errors
/// [`Kind::Usage`] for an existing file that may not be replaced, [`Kind::Memory`] if the state
/// does not fit; errors of reading and writing.
pub fn export_npz(job: &Job, graph: &Graph, path: &Path, replace: bool) -> Result<(u64, u64)> {
    let manifest = graph.manifest();
    let entries = match manifest.directed {
        true => manifest.edges,
        false => 2 * manifest.edges - manifest.loops,
    };
    let names = graph.names(job)?;
    let ids = names.as_ref().and_then(Names::numbers);
    let beside_bytes = ListHolder::bytes(graph, true) + 8 * BUFFER_BYTES as u64;
    let _state = State::reserve(job, graph, KERNEL, StateBytes::new(8, beside_bytes))?;
    let degrees = graph.degrees(job, Direction::Out)?;
    let with_edges = |vertex: &u32| degrees[*vertex as usize] > 0;
    let vertices: Vec<u32> = (0..graph.vertices() as u32).filter(with_edges).collect();
    let is_wide = entries.max(manifest.vertices) > i32::MAX as u64;
    let index = if is_wide { "<i8" } else { "<i4" };
    let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
    let plan = ShardPlan {
        path: std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
        header: Vec::new(),
        start_bytes: 0,
        len_bytes: 12 * entries + 16 * manifest.vertices + HEADERS_BYTES,
    };
    let staged = StagedOutput::stage(&volume, vec![plan], None, replace, Room::AtMost)?;
    let mut lists = ListHolder::new(job, graph, Direction::Out, true)?;
    let mut each_run = |take: &mut dyn FnMut(&HeldLists) -> Result<()>| {
        job.control.begin_phase("export", 0);
        runs(&vertices, &degrees).try_for_each(|run| {
            job.control.check()?;
            take(&lists.read(run.to_vec())?)
        })
    };
    let len_bytes = write_files(job, &volume, |appender| {
        let file = &staged.shards()[0].file;
        let mut archive = Archive {
            file: appender.file(job, file, BUFFER_BYTES, false)?,
            len_bytes: 0,
            crc: Crc::new(),
            members: Vec::new(),
        };
        archive.array("format.npy", "|S3", "", |archive| archive.append(b"csr"))?;
        archive.array("shape.npy", "<i8", "2,", |archive| {
            archive.numbers([manifest.vertices; 2].into_iter(), true)
        })?;
        let shape = format!("{},", manifest.vertices + 1);
        archive.array("indptr.npy", index, &shape, |archive| {
            let mut end = 0;
            let ends = degrees.iter().map(|degree| {
                end += u64::from(*degree);
                end
            });
            archive.numbers(std::iter::once(0).chain(ends), is_wide)
        })?;
        let shape = format!("{entries},");
        archive.array("indices.npy", index, &shape, |archive| {
            let mut count = 0;
            each_run(&mut |lists| {
                for place in 0..lists.vertices().len() {
                    let others = lists.neighbours(place).iter();
                    count += others.len() as u64;
                    archive.numbers(others.map(|other| u64::from(*other)), is_wide)?;
                }
                Ok(())
            })?;
            match count == entries {
                true => Ok(()),
                false => {
                    let cause = format!(
                        "its lists have {}, not {entries}",
                        units::counted(count, "neighbour")
                    );
                    Err(Error::new(Kind::Corrupt, KERNEL, cause).path(graph.dir()))
                }
            }
        })?;
        let weights = manifest.weights().unwrap_or(WeightType::F32);
        let is_long = weights.words() == 2;
        archive.array("data.npy", weights.descr(), &shape, |archive| {
            if !manifest.weighted {
                let one = u64::from(1f32.to_bits());
                return archive.numbers((0..entries).map(|_| one), false);
            }
            each_run(&mut |lists| {
                (0..lists.vertices().len()).try_for_each(|place| {
                    let weights = lists.weights(place).iter();
                    archive.numbers(weights.copied(), is_long)
                })
            })
        })?;
        if let Some(ids) = ids {
            let shape = format!("{},", ids.len());
            archive.array("ids.npy", "<i8", &shape, |archive| {
                archive.numbers(ids.iter().copied(), true)
            })?;
        }
        archive.finish()
    })?;
    staged.publish_each(&volume, &[len_bytes])?;
    Ok((entries, len_bytes))
}
