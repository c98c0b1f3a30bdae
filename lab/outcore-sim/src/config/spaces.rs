//! Division of a drive's logical space and open blocks: namespaces, zones and placement handles.
//!
//! Contract: the defaults divide nothing, so they change no result. `compat = "mqsim"` and a
//! mapping table on flash reject them, because MQSim has none of them.

use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use super::check::wrong;
use super::{Compat, DriveConfig};
use crate::quantities::Size;

/// Maximum number of namespaces, and of placement handles.
const PARTS_MAX: u32 = 128;

/// Namespaces: parts of the logical space that flows name by their numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NamespacesConfig {
    /// Size of each namespace. A size of 0 is an equal part of what the others leave. Without
    /// sizes, every flow has an equal part of the drive and open blocks of its own.
    pub sizes: Vec<Size>,
}

/// Zones: parts of a namespace that are written in order and reset as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZonesConfig {
    /// Numbers of the namespaces that have zones.
    pub namespaces: Vec<u32>,
    /// Erase blocks of a zone; 0 means one of every plane.
    pub blocks: u32,
    /// Zones of a namespace that may be open at a time; 0 means no limit.
    pub open: u32,
    /// Zones of a namespace that may hold data without being full; 0 means no limit.
    pub active: u32,
}

/// Destination of data that collection moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Into blocks of the handle that wrote it ("persistently isolated").
    #[default]
    Persistent,
    /// Into blocks that all handles share ("initially isolated").
    Initial,
}

/// Flexible data placement (NVMe TP4146): a write names one of several open blocks by its handle.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FdpConfig {
    /// Number of placement handles; 0 means no placement.
    pub handles: u32,
    /// Blocks for collected data.
    pub isolation: Isolation,
}

impl DriveConfig {
    /// Rejects namespaces, for jobs that use a drive as a whole.
    pub(crate) fn check_is_whole(&self, operation: &'static str) -> Result<()> {
        if self.namespaces.sizes.is_empty() {
            return Ok(());
        }
        Err(Error::usage(
            operation,
            "the drive has namespaces, but is used as a whole",
        )
        .hint("leave out namespaces.sizes; `sim run` has flows that name a namespace"))
    }

    /// Rejects divisions that no drive has.
    pub(super) fn check_spaces(&self) -> Result<()> {
        let sizes = self.namespaces.sizes.len() as u32;
        let zones = &self.zones;
        if let Some(number) = zones.namespaces.iter().find(|number| **number >= sizes) {
            return wrong(format!(
                "zones.namespaces names {number}, but there are {sizes} namespaces; namespaces.sizes = [\"0B\"] is one of the whole drive"
            ));
        }
        if zones.blocks > 1 << 20 {
            return wrong(format!(
                "zones.blocks is {}; at most {} are possible",
                zones.blocks,
                1 << 20
            ));
        }
        if zones.active > 0 && zones.open > zones.active {
            return wrong(format!(
                "zones.open is {}, but open zones are active, and zones.active is {}",
                zones.open, zones.active
            ));
        }
        for (key, count) in [
            ("namespaces.sizes", sizes),
            ("fdp.handles", self.fdp.handles),
        ] {
            if count > PARTS_MAX {
                return wrong(format!(
                    "{key} is {count}; at most {PARTS_MAX} are possible"
                ));
            }
            if count > 0 && self.compat == Compat::Mqsim {
                return wrong(format!("MQSim has no {key}; use compat = \"none\" for it"));
            }
            if count > 0 && !self.mapping.resident {
                return wrong(format!(
                    "{key} needs the whole mapping table in DRAM: mapping.resident = true"
                ));
            }
        }
        Ok(())
    }
}
