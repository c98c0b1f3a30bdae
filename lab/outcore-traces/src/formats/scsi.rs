//! SCSI commands, as traces of virtual disks name them.
//!
//! Contract: a command is a request, moves no data on the medium, or is not a command of one byte.
//! Source: SBC-4.

use crate::request::Op;
use crate::skips::Reason;

/// The operation of a SCSI code; `None` for commands that do not access data on the medium.
pub(crate) fn op_of(opcode: u64) -> Result<Option<Op>, Reason> {
    match opcode {
        // READ (6), (10), (12), (16)
        0x08 | 0x28 | 0xa8 | 0x88 => Ok(Some(Op::Read)),
        // WRITE (6), (10), (12), (16) and WRITE AND VERIFY (10), (12), (16)
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Ok(Some(Op::Write)),
        // UNMAP
        0x42 => Ok(Some(Op::Trim)),
        // SYNCHRONIZE CACHE (10), (16)
        0x35 | 0x91 => Ok(Some(Op::Flush)),
        0..=0xff => Ok(None),
        _ => Err(Reason::Operation),
    }
}
