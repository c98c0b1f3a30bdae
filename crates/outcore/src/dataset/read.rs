//! What a [`Context`] reads: values of a type, lines, records by expression, generated values.
//!
//! Contract: files are looked for and arrays' headers read; all else waits for a consumer.

use std::path::Path;

use super::context::Context;
use super::names::{Elements, inputs_of, paths_of};
use super::stages::{FromFiles, FromSequence};
use super::text::Lines;
use super::typed::TypedDataset;
use super::{Dataset, ItemType};
use crate::ends::Input;
use crate::key::RecordFormat;
use crate::primitives::batch::Tabulate;
use crate::primitives::{Sequence, tabulate};
use outcore_io::Result;

impl Context {
    /// The values of type `T` in the files of a name, in order: raw values, little endian, or
    /// arrays of NumPy (`.npy`): of that type where `T` is a number, of values as long where it is
    /// a type of the caller's. `*` and `?` in the last part of the name stand for any characters,
    /// for one; the files come in the order of their names. The name of a manifest means its
    /// shards.
    ///
    /// # Errors
    /// No such file; a `.npy` file of other values; a shard that is not the one of its manifest.
    pub fn read<T: bytemuck::Pod + Send + Sync>(
        &self,
        name: impl AsRef<Path>,
    ) -> Result<TypedDataset<FromFiles<T>>> {
        let paths = paths_of(name.as_ref())?;
        let inputs = inputs_of(&paths, &Elements::of_type::<T>()?)?;
        Ok(self.read_inputs(&inputs))
    }

    /// The same of files that are known one by one.
    pub fn read_inputs<T: bytemuck::Pod + Send + Sync>(
        &self,
        inputs: &[Input],
    ) -> TypedDataset<FromFiles<T>> {
        TypedDataset::new(self, FromFiles::new(inputs))
    }

    /// `f(0)` to `f(count - 1)`, made where they are needed.
    pub fn tabulate<T: Send, F: Fn(u64) -> T + Sync>(
        &self,
        count: u64,
        f: F,
    ) -> TypedDataset<FromSequence<Tabulate<F>>> {
        self.sequence(tabulate(count, f))
    }

    /// Any sequence.
    pub fn sequence<S: Sequence>(&self, sequence: S) -> TypedDataset<FromSequence<S>> {
        TypedDataset::new(self, FromSequence(sequence))
    }

    /// The lines of the files of a name, as [`Context::read`] has them.
    ///
    /// # Errors
    /// No such file.
    pub fn lines(&self, name: impl AsRef<Path>) -> Result<Lines> {
        let paths = paths_of(name.as_ref())?;
        let inputs = paths.iter().map(Input::raw).collect();
        Ok(Lines::new(self, inputs))
    }

    /// Records whose size and keys are known when the program runs, for steps that are expressions;
    /// as [`Context::read`] has the name. [`Dataset::execute`] runs them, with this context as
    /// resources.
    ///
    /// # Errors
    /// No such file; a `.npy` file of records of another size, or of other numbers.
    pub fn records(&self, name: impl AsRef<Path>, format: &RecordFormat) -> Result<Dataset> {
        let paths = paths_of(name.as_ref())?;
        let inputs = inputs_of(&paths, &Elements::of_format(format))?;
        Ok(Dataset::records(&inputs, ItemType::from(format.clone())))
    }
}
