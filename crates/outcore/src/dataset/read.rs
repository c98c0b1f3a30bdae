//! The inputs of a [`Context`]: values of a type, lines, records by expression, generated values.
//!
//! Contract: these functions find files and read the headers of arrays; a consumer does the rest.

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
    /// The values of type `T` in the files of a name, in order: raw little-endian values, or NumPy
    /// arrays (`.npy`). If `T` is a number, an array must have that type. If `T` is a type of the
    /// caller, the array's elements must have its length. `*` and `?` in the last part of the name
    /// match any characters, or one character; the files are in the order of their names. The name
    /// of a manifest means its shards.
    ///
    /// # Errors
    /// No such file; a `.npy` file of other values; a shard that does not match its manifest.
    pub fn read<T: bytemuck::Pod + Send + Sync>(
        &self,
        name: impl AsRef<Path>,
    ) -> Result<TypedDataset<FromFiles<T>>> {
        let paths = paths_of(name.as_ref())?;
        let inputs = inputs_of(&paths, &Elements::of_type::<T>()?)?;
        Ok(self.read_inputs(&inputs))
    }

    /// Like [`Context::read`], for a list of known files.
    pub fn read_inputs<T: bytemuck::Pod + Send + Sync>(
        &self,
        inputs: &[Input],
    ) -> TypedDataset<FromFiles<T>> {
        TypedDataset::new(self, FromFiles::new(inputs))
    }

    /// `f(0)` to `f(count - 1)`, computed when needed.
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

    /// The lines of the files of a name; for names, see [`Context::read`].
    ///
    /// # Errors
    /// No such file.
    pub fn lines(&self, name: impl AsRef<Path>) -> Result<Lines> {
        let paths = paths_of(name.as_ref())?;
        let inputs = paths.iter().map(Input::raw).collect();
        Ok(Lines::new(self, inputs))
    }

    /// Records whose size and keys are known only at run time, for steps that are expressions; for
    /// names, see [`Context::read`]. [`Dataset::execute`] runs them, with this context as
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
