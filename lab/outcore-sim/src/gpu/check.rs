//! Rejects runs that cannot be simulated, with the reason.
//!
//! Contract: after [`validate`] and [`check_footprint`] every block fits on a core and every
//! request is inside its part of the drive.

use outcore_io::{Error, Result};

use super::{BLOCKS_MAX, OPERATION, Path, Setup, Workload};

pub(super) fn validate(setup: &Setup) -> Result<()> {
    let fail = |cause: String| Err(Error::usage(OPERATION, cause));
    setup.gpu.validate()?;
    if setup.workloads.is_empty() || setup.workloads.len() > 63 {
        return fail(format!(
            "{} workloads; 1 to 63 are possible",
            setup.workloads.len()
        ));
    }
    for workload in &setup.workloads {
        if workload.kernels.is_empty() {
            return fail(format!("{} has no kernels", workload.name));
        }
        for kernel in &workload.kernels {
            setup.gpu.slots(kernel)?;
            if kernel.blocks() > BLOCKS_MAX {
                return fail(format!("{} has {} blocks", kernel.name, kernel.blocks()));
            }
        }
    }
    if let Path::Mediated {
        cpus,
        copy_bytes_per_s,
        ..
    } = setup.path
        && (cpus == 0 || copy_bytes_per_s == 0)
    {
        return fail("the mediated path needs a thread and a copy rate".to_owned());
    }
    if let Some(host) = setup.host
        && (host.depth == 0
            || host.bytes == 0
            || !host.bytes.is_multiple_of(512)
            || host.bytes > 1 << 24
            || !(0.0..=1.0).contains(&host.read_ratio))
    {
        return fail("host requests need a depth, whole sectors and a share of reads".to_owned());
    }
    Ok(())
}

pub(super) fn check_footprint(workload: &Workload, have_bytes: u64) -> Result<()> {
    for kernel in workload.kernels.iter().chain(&workload.before) {
        let declared = kernel.io.iter().map(|io| io.start_bytes + io.region_bytes);
        let paged = kernel.pages.iter();
        let paged = paged.map(|page| page.offset_bytes + u64::from(page.bytes));
        let end = declared.chain(paged).max().unwrap_or(0);
        // Widening to sectors may add one sector on each side.
        if end + 1024 > have_bytes {
            return Err(Error::usage(
                OPERATION,
                format!(
                    "{} of {} reaches byte {end}; its part of the drive has {have_bytes}",
                    kernel.name, workload.name
                ),
            )
            .hint("use a larger drive, fewer workloads or a smaller region"));
        }
    }
    Ok(())
}
