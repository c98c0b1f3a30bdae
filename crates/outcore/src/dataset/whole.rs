//! Steps of a typed dataset that need all items: sort, merge, shuffle, scan, reverse.
//!
//! Contract: each is one job of the engine over the files of the items; items that are in files
//! already are read in place.

use bytemuck::Pod;

use super::stages::{Passes, Sortable, Stages, Whole};
use crate::ends::Output;
use crate::key::RecordFormat;
use crate::primitives::Summary;
use crate::primitives::batch::{Sequence, Yield};
use crate::primitives::sorted::can_sort;
use crate::primitives::{self, Inclusion};
use crate::shuffle::{ShuffleOptions, Unit, shuffle};
use crate::sort::{SortOptions, sort};
use outcore_io::{Error, Result};

/// Items in order.
#[derive(Debug, Clone)]
pub struct InOrder {
    format: std::result::Result<RecordFormat, Error>,
    options: SortOptions,
}

impl InOrder {
    /// The natural order of the items.
    pub(super) fn of<T: Sortable>(options: SortOptions) -> Self {
        InOrder {
            format: T::format(),
            options,
        }
    }

    /// The order of a format.
    pub(super) fn by(format: RecordFormat, options: SortOptions) -> Self {
        InOrder {
            format: Ok(format),
            options,
        }
    }
}

impl<T: Pod + Send> Whole<T> for InOrder {
    type Made = T;
    const TEXT: &'static str = "sort";

    fn can_be_sharded(&self) -> bool {
        !self.options.unique
    }

    fn run<P: Stages<Item = T>>(
        self,
        of: P,
        passes: &mut Passes,
        output: Output,
        replace: bool,
    ) -> Result<Summary> {
        let format = of_items::<T>(self.format?, "sort")?;
        let options = SortOptions {
            replace,
            ..self.options
        };
        let is_piped = matches!(output, Output::Pipe(_));
        if of.is_made() && can_sort(P::Last::YIELD, options, is_piped) {
            let last = of.settle(passes)?;
            let done =
                primitives::sorted::sort_items(&passes.job(), &last, output, &format, options);
            return done.map(Summary::from);
        }
        let files = of.files(passes)?;
        sort(&passes.job(), &files, output, &format, options).map(Summary::from)
    }
}

/// The items of sorted files, merged into one order.
#[derive(Debug, Clone)]
pub struct Merged(pub(super) InOrder);

impl<T: Pod + Send> Whole<T> for Merged {
    type Made = T;
    const TEXT: &'static str = "merge";

    fn can_be_sharded(&self) -> bool {
        false
    }

    fn run<P: Stages<Item = T>>(
        self,
        of: P,
        passes: &mut Passes,
        output: Output,
        replace: bool,
    ) -> Result<Summary> {
        if of.is_made() {
            let cause = "files must be merged before any other step";
            return Err(Error::usage("merge", cause).hint("merge first, then filter or map"));
        }
        let InOrder { format, options } = self.0;
        let options = SortOptions { replace, ..options };
        let files = of.files(passes)?;
        primitives::merge(
            &passes.job(),
            &files,
            &of_items::<T>(format?, "merge")?,
            options,
            &output,
        )
    }
}

/// The format, if its record length equals the item length.
fn of_items<T>(format: RecordFormat, what: &'static str) -> Result<RecordFormat> {
    let (here, there) = (size_of::<T>(), format.record_bytes());
    if here == there {
        return Ok(format);
    }
    let cause = format!("the key describes records of {there} bytes, but the items have {here}");
    Err(Error::usage(what, cause).hint("give the format of the items"))
}

/// Items in a random order.
#[derive(Debug, Clone, Copy)]
pub struct AtRandom {
    pub(super) seed: u64,
    pub(super) epoch: u64,
}

impl<T: Pod + Send> Whole<T> for AtRandom {
    type Made = T;
    const TEXT: &'static str = "shuffle";

    fn run<P: Stages<Item = T>>(
        self,
        of: P,
        passes: &mut Passes,
        output: Output,
        replace: bool,
    ) -> Result<Summary> {
        let files = of.files(passes)?;
        let options = ShuffleOptions {
            unit: Unit::Records {
                record_bytes: size_of::<T>(),
            },
            seed: self.seed,
            epoch: self.epoch,
            replace,
        };
        shuffle(&passes.job(), &files, output, options).map(Summary::from)
    }
}

/// Prefixes of items.
#[derive(Debug, Clone)]
pub struct Prefixes<T, F> {
    pub(super) identity: T,
    pub(super) op: F,
    pub(super) inclusion: Inclusion,
}

impl<T: Pod + Send + Sync, F: Fn(T, T) -> T + Sync> Whole<T> for Prefixes<T, F> {
    type Made = T;
    const TEXT: &'static str = "scan";

    fn run<P: Stages<Item = T>>(
        self,
        of: P,
        passes: &mut Passes,
        output: Output,
        replace: bool,
    ) -> Result<Summary> {
        let last = of.settle(passes)?;
        let job = passes.job();
        let done = primitives::scan(
            &job,
            &last,
            self.identity,
            self.op,
            self.inclusion,
            &output,
            replace,
        )?;
        Ok(done)
    }
}

/// The last item first.
#[derive(Debug, Clone, Copy)]
pub struct Backward;

impl<T: Pod + Send> Whole<T> for Backward {
    type Made = T;
    const TEXT: &'static str = "reverse";

    fn run<P: Stages<Item = T>>(
        self,
        of: P,
        passes: &mut Passes,
        output: Output,
        replace: bool,
    ) -> Result<Summary> {
        if P::Last::YIELD == Yield::One {
            let last = of.settle(passes)?;
            return primitives::reverse(&passes.job(), &last, &output, replace);
        }
        let files = primitives::read::<T>(&of.files(passes)?);
        primitives::reverse(&passes.job(), &files, &output, replace)
    }
}
