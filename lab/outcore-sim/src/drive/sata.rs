//! The SATA front end: its differences from queue pairs over PCIe.
//!
//! Model: serial ATA, revision 3 at 600 MB/s.
//! - Native command queueing has one queue of 32 commands.
//! - The link carries one frame at a time, in one direction, first come first served.
//! - A command is a frame of 20 bytes that the host pushes (nothing is fetched). Data travels in
//!   frames of at most 8 KiB after a set-up frame of 28 bytes. A completion is a frame of 8 bytes.
//! - Every frame costs a handshake (`host.sata_frame`), every command the host adapter's time
//!   (`host.sata_delay`).
//! - Commands end in any order, as the flash finishes them.
//!
//! Invariant: at most 32 commands are outstanding; all others wait at the host.

use super::link::{Flight, Message};
use super::{Drive, Host, event_kind};
use crate::quantities::Ps;

impl Drive {
    /// The host sends a command, which enters the drive at once.
    pub(super) fn enqueue_sata(&mut self, req: u32) {
        let queue = self.reqs[req].queue;
        self.queues[usize::from(queue)].push_command(req);
        let ps = self.link.submission_ps;
        self.stats.link_to_drive_ps += ps;
        self.send_either_way(Message::Submission { req }, ps);
    }

    /// Queues a message on the only link, for either direction.
    pub(super) fn send_either_way(&mut self, message: Message, ps: Ps) {
        self.link.to_drive.push_back(Flight { message, ps });
        if self.link.to_drive.len() == 1 {
            self.schedule_link(self.now + ps, event_kind::TO_DRIVE);
        }
    }

    /// A message has arrived at its receiver. The link stays busy until the message has been
    /// handled, so that a response queues behind the messages that already wait.
    pub(super) fn deliver_either_way<H: Host>(&mut self, host: &mut H) {
        let Some(flight) = self.link.to_drive.front() else {
            return;
        };
        match flight.message {
            Message::Submission { .. } | Message::WriteData { .. } => {
                self.received_by_drive(flight.message);
            }
            message => self.received_by_host(message, host),
        }
        self.link.to_drive.pop_front();
        if let Some(next) = self.link.to_drive.front() {
            self.schedule_link(self.now + next.ps, event_kind::TO_DRIVE);
        }
    }
}
