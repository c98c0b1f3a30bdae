//! Progress of one system transfer, which may move fewer bytes than requested.
//!
//! Contract: pure. A transfer ends when all bytes have moved, when no more bytes come (the end of
//! the file), or with an error. Otherwise it is resumed; with direct I/O, from a block boundary.

use rustix::io::Errno;

use super::BLOCK_BYTES;

/// Progress of one transfer; decides between resuming, done, end of file and error.
#[derive(Debug)]
pub(crate) struct Progress {
    done_bytes: usize,
    resume_at_bytes: usize,
    is_direct: bool,
}

impl Progress {
    pub(crate) fn new(is_direct: bool) -> Self {
        Progress {
            done_bytes: 0,
            resume_at_bytes: 0,
            is_direct,
        }
    }

    /// Offset at which the next system call starts.
    pub(crate) fn resume_at_bytes(&self) -> usize {
        self.resume_at_bytes
    }

    /// Takes the result of a system call (bytes, or the negative error number) for a transfer of
    /// `len_bytes`. Returns the final result, or `None` if the transfer must be resumed.
    pub(crate) fn advance(
        &mut self,
        answer: i32,
        len_bytes: usize,
    ) -> Option<std::result::Result<usize, i32>> {
        if answer < 0 {
            let errno = Errno::from_raw_os_error(-answer);
            return match errno {
                Errno::INTR | Errno::AGAIN => None,
                _ => Some(Err(-answer)),
            };
        }
        let reached = self.resume_at_bytes + answer as usize;
        if reached >= len_bytes {
            return Some(Ok(len_bytes));
        }
        if reached <= self.done_bytes {
            // No progress since the last answer: the end of the file.
            return Some(Ok(self.done_bytes));
        }
        self.done_bytes = reached;
        self.resume_at_bytes = if self.is_direct {
            reached / BLOCK_BYTES * BLOCK_BYTES
        } else {
            reached
        };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_transfer_is_resumed_and_the_end_of_a_file_is_not_an_error() {
        let mut direct = Progress::new(true);
        assert_eq!(direct.advance(5000, 8192), None);
        assert_eq!(direct.resume_at_bytes(), 4096);
        assert_eq!(direct.advance(904, 8192), Some(Ok(5000)));
        let mut buffered = Progress::new(false);
        assert_eq!(buffered.advance(-4, 8192), None);
        assert_eq!(buffered.advance(5000, 8192), None);
        assert_eq!(buffered.advance(3192, 8192), Some(Ok(8192)));
        let mut failed = Progress::new(false);
        assert_eq!(failed.advance(-5, 8192), Some(Err(5)));
        let mut empty = Progress::new(true);
        assert_eq!(empty.advance(0, 8192), Some(Ok(0)));
    }
}
