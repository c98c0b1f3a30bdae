//! GETs of ranges of the version of an object that was found.
//!
//! Contract: [`get`] fails with [`Error::changed_input`] if the store has another version. The
//! caller repeats a GET if [`Fault::is_passing`] says that another try may help.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore as _};
use outcore_io::{Error, Kind, Result};
use tokio::sync::Semaphore;

use crate::cloud::{Object, PAUSE_MAX, PAUSE_MIN, RETRIES_MAX};
use crate::fault::{changed, explain, is_passing};

/// A GET is given up after this time without a byte.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);
pub(crate) const READ: &str = "read object";

/// Bytes as they arrive.
type Arriving = BoxStream<'static, object_store::Result<Bytes>>;

/// A failed GET.
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// Whether another try may help.
    pub(crate) is_passing: bool,
}

impl Fault {
    pub(crate) fn of(object: &Object, error: &object_store::Error) -> Self {
        Fault {
            is_passing: is_passing(error),
            error: explain(READ, &object.address, error),
        }
    }

    pub(crate) fn lost(object: &Object, cause: &str) -> Self {
        let error = Error::new(Kind::Io, READ, cause).path(object.address.path());
        Fault {
            error: error.hint("the network failed after several tries: try again later"),
            is_passing: true,
        }
    }
}

/// The bytes of a range of the version that was found, as they arrive.
pub(crate) async fn get(
    object: &Object,
    range: Range<u64>,
) -> std::result::Result<Arriving, Fault> {
    let found = &object.facts;
    // A weak ETag matches nothing, and is compared afterwards.
    let strong = found.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
    let options = GetOptions {
        range: Some(GetRange::Bounded(range.clone())),
        if_unmodified_since: strong.is_none().then_some(found.last_modified),
        if_match: strong,
        ..GetOptions::default()
    };
    let got = object.store.objects.get_opts(&object.location, options);
    let got: GetResult = match got.await {
        Ok(got) => got,
        // The range may be outside of the object as it is now.
        Err(error) => match object
            .store
            .objects
            .get_opts(&object.location, head())
            .await
        {
            Ok(now) if !is_same(found, &now.meta) => return Err(other_version(object)),
            _ => return Err(Fault::of(object, &error)),
        },
    };
    if !is_same(found, &got.meta) || got.range != range {
        return Err(other_version(object));
    }
    Ok(got.into_stream())
}

fn head() -> GetOptions {
    GetOptions {
        head: true,
        ..GetOptions::default()
    }
}

fn other_version(object: &Object) -> Fault {
    Fault {
        error: changed(READ, &object.address.path()),
        is_passing: false,
    }
}

/// Whether both describe one version.
fn is_same(found: &ObjectMeta, now: &ObjectMeta) -> bool {
    let is_dated = found.e_tag.is_some() || found.last_modified == now.last_modified;
    found.size == now.size && found.e_tag == now.e_tag && is_dated
}

/// Reads a short range of an object.
///
/// # Errors
/// I/O; corrupt: the object has changed.
pub(crate) async fn read(
    object: &Object,
    range: Range<u64>,
    gets: Arc<Semaphore>,
) -> Result<Bytes> {
    let _permit = gets.acquire_owned().await;
    let wanted = (range.end - range.start) as usize;
    let (mut tries, mut pause) = (0, PAUSE_MIN);
    let mut bytes = BytesMut::with_capacity(wanted);
    while bytes.len() < wanted {
        let from = range.start + bytes.len() as u64;
        let fault = match get(object, from..range.end).await {
            Ok(mut stream) => loop {
                match tokio::time::timeout(SILENCE_MAX, stream.next()).await {
                    Ok(Some(Ok(chunk))) => bytes.extend_from_slice(&chunk),
                    Ok(Some(Err(error))) => break Fault::of(object, &error),
                    Ok(None) => break Fault::lost(object, "the answer ended early"),
                    Err(_) => break Fault::lost(object, "nothing arrived for 30 seconds"),
                }
            },
            Err(fault) => fault,
        };
        if bytes.len() >= wanted {
            break;
        }
        tries += 1;
        if !fault.is_passing || tries > RETRIES_MAX {
            return Err(fault.error);
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
    bytes.truncate(wanted);
    Ok(bytes.freeze())
}
