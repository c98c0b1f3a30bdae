//! Puts data on an otherwise empty drive, as for a job that reads files written long ago.
//!
//! Model: the first units of a queue fill whole blocks in the order of their addresses, spread over
//! the planes as by static allocation. All other blocks are free, as after a trim.
//!
//! Bounds: 4 bytes per unit while it runs.

use outcore_io::Result;

use super::Drive;

impl Drive {
    /// Fills the first `share` (0 to 1) of the queue's units. Needs a queue without data.
    ///
    /// # Errors
    /// The units do not fit because the geometry has too little over-provisioning.
    pub(crate) fn fill_in_order(&mut self, queue: u16, share: f64) -> Result<()> {
        let domain = self.map.domain(queue);
        let base = domain.base;
        let count = (f64::from(domain.units) * share.clamp(0.0, 1.0)) as u32;
        let full = self.full_unit();
        let mut planes: Vec<Vec<u32>> = vec![Vec::new(); self.p.plane_count as usize];
        // Units are taken from the end of their list.
        for unit in (0..count).rev() {
            let domain = self.map.domain(queue);
            let plane = domain.order.plane(unit / self.p.slots);
            planes[plane as usize].push(base + unit);
            self.map.set_written_direct(base + unit, full);
        }
        for (plane, units) in planes.iter_mut().enumerate() {
            while !units.is_empty() {
                let pages = units.len().div_ceil(self.p.slots as usize);
                let valid = pages.min(self.p.pages as usize) as u32;
                self.fill_block(queue, plane as u32, valid, units)?;
            }
        }
        self.blocks.check_conservation(&self.p);
        Ok(())
    }

    /// Bitmap of a unit whose sectors are all written.
    pub(super) fn full_unit(&self) -> u64 {
        if self.p.unit_sectors >= 64 {
            u64::MAX
        } else {
            (1 << self.p.unit_sectors) - 1
        }
    }
}
