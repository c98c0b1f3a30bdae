//! The rows of both tables as input of the engine.
//!
//! Contract: [`JoinSource`] is the engine's [`RowSource`] over two tables: the pieces of the right
//! table, followed by those of the left one, form one list. Threads take pieces in order, and
//! positions ascend in the order of each input.
//!
//! **The sample.** Each table is sampled as in [`rows_in`](crate::jobs::rows_in). Keys of the table
//! with the denser sample are dropped until both are equally dense, so that keys are as frequent in
//! the sample as in the data.
//!
//! Bounds: a reader and a batch of rows per thread; the sample's keys.

use std::sync::atomic::AtomicUsize;

use outcore::Forecast;
use outcore::sort::lines::rows::{
    LongRow, MeanRow, RowBatch, RowSource, Sampled, TakeAgain, TakeRows, TakenRows,
};
use outcore_io::Result;

use super::plan::{Plan, Which};
use crate::input::{PieceQueue, TableInput, TableReader};
use crate::jobs::rows_in::{
    ROWS_AT_ONCE, ReadShape, Sample, ends_of, parts_of, pieces_of, position_of, take_made,
};

/// See the module.
pub(super) struct JoinSource<'a> {
    plan: &'a Plan,
    /// The left table, then the right one.
    inputs: &'a [TableInput; 2],
    shape: ReadShape,
    samples: [Sample; 2],
    data_bytes: u64,
    row_bytes: f64,
    /// The pieces of both tables; the right ones are taken first.
    queues: [PieceQueue; 2],
    begun: AtomicUsize,
}

impl<'a> JoinSource<'a> {
    /// Opens `inputs`, reads only the columns of `plan`, and takes the sample.
    ///
    /// # Errors
    /// Errors of the readers.
    pub(super) fn open(
        inputs: &'a [TableInput; 2],
        plan: &'a Plan,
        shape: ReadShape,
    ) -> Result<Self> {
        let mut samples = [Sample::begin(), Sample::begin()];
        let (mut data_bytes, mut rows_count) = (0.0, 0);
        for which in [Which::Right, Which::Left] {
            let (input, sample) = (&inputs[which as usize], &mut samples[which as usize]);
            sample.see_lens(input, shape.reader_bytes, &|batch, rows| {
                plan.encode(which, batch, 0, rows)
            })?;
            let names = plan.key_names(which);
            sample.see_keys(input, &names, shape.reader_bytes, &|batch, rows| {
                plan.encode_keys(which, batch, rows)
            })?;
            data_bytes += sample.row_bytes() * input.rows_count() as f64;
            rows_count += input.rows_count();
        }
        let density = |which: Which| {
            let (seen, all) = (&samples[which as usize].keys, &inputs[which as usize]);
            seen.len() as f64 / all.rows_count().max(1) as f64
        };
        let (left, right) = (density(Which::Left), density(Which::Right));
        let least = left.min(right);
        if least > 0.0 {
            samples[0].thin_out(least / left);
            samples[1].thin_out(least / right);
        }
        Ok(JoinSource {
            plan,
            inputs,
            shape,
            samples,
            data_bytes: data_bytes as u64,
            row_bytes: data_bytes / rows_count.max(1) as f64,
            queues: [shape.readers_count; 2].map(PieceQueue::new),
            begun: AtomicUsize::new(0),
        })
    }

    /// The approximate bytes of all rows, and the average bytes of a row.
    pub(super) fn amount(&self) -> (u64, f64) {
        (self.data_bytes, self.row_bytes)
    }
}

impl RowSource for JoinSource<'_> {
    fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn memory_bytes(&self) -> u64 {
        // The reader holds a batch of arrays. Its rows need the same memory once more, and so do
        // its keys.
        let made_bytes = 3 * self.shape.batch_bytes + self.shape.made_bytes;
        (self.shape.reader_bytes + made_bytes) * self.shape.readers_count as u64
    }

    fn longest_row(&self) -> Option<LongRow> {
        self.shape.longest
    }

    fn read_forecast(&self) -> Forecast {
        let inputs = self.inputs.iter();
        inputs.map(TableInput::stored_bytes).sum::<u64>().into()
    }

    fn sampled(&self) -> Sampled {
        let read_bytes = self.inputs.iter().map(TableInput::read_bytes).sum();
        self.samples[0].cost(read_bytes)
    }

    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        self.samples.iter().try_for_each(|sample| sample.show(take))
    }

    fn mean_row(&self) -> Option<MeanRow> {
        let seen = self.samples.iter().zip(self.inputs);
        let seen = seen.filter_map(|(sample, input)| Some((sample.mean()?, input.rows_count())));
        let (mut rows, mut bytes, mut key_bytes) = (0.0, 0.0, 0.0);
        for (mean, count) in seen {
            rows += count as f64;
            bytes += mean.row_bytes * count as f64;
            key_bytes += mean.key_bytes * count as f64;
        }
        (rows > 0.0).then(|| MeanRow {
            row_bytes: bytes / rows,
            key_bytes: key_bytes / rows,
        })
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let mut take = |rows: &RowBatch, position: u64, _: bool| take(rows, position);
        self.make_again(TakenRows::NONE, &mut take)
    }

    fn make_again(&self, taken: TakenRows<'_>, take: &mut TakeAgain<'_>) -> Result<()> {
        if !taken.is_making(self.shape.readers_count, &self.begun) {
            return Ok(());
        }
        let own = ends_of(taken.own);
        for of in [Which::Right, Which::Left] {
            let input = &self.inputs[of as usize];
            let (first, queue) = (self.first_of(of), &self.queues[of as usize]);
            let numbers = first..first + input.pieces().len();
            let begun = pieces_of(taken.all).filter(|number| numbers.contains(number));
            queue.leave_out(begun.map(|number| number - first));
            let mut reader = input.reader(self.shape.reader_bytes)?;
            let own = own.iter().filter(|(number, _)| numbers.contains(number));
            reader.expect(
                own.clone()
                    .map(|(number, _)| input.pieces()[number - first]),
            );
            for (number, end) in own {
                self.make_piece(&mut reader, of, *number, *end, take)?;
            }
            while let Some((number, _)) = reader.take(queue) {
                self.make_piece(&mut reader, of, first + number, 0, take)?;
            }
        }
        Ok(())
    }
}

impl JoinSource<'_> {
    /// The number of the first piece of a table among the pieces of both tables.
    fn first_of(&self, which: Which) -> usize {
        match which {
            Which::Right => 0,
            Which::Left => self.inputs[Which::Right as usize].pieces().len(),
        }
    }

    /// Passes on the rows of a piece. Rows before the position `end` are marked: the killed run
    /// passed them on already. Rows whose key is null may be left out, so positions count the rows
    /// that are made.
    fn make_piece(
        &self,
        reader: &mut TableReader<'_>,
        of: Which,
        number: usize,
        end: u64,
        take: &mut TakeAgain<'_>,
    ) -> Result<()> {
        let at_once = self.shape.batch_bytes as f64 / self.row_bytes.max(1.0);
        let at_once = (at_once as usize).clamp(1, ROWS_AT_ONCE);
        let piece = self.inputs[of as usize].pieces()[number - self.first_of(of)];
        let mut rows = RowBatch::default();
        let mut position = position_of(number)?;
        let mut made = position;
        for batch in reader.open(piece)? {
            for part in parts_of(&batch?, at_once) {
                rows.clear();
                self.plan.encode(of, &part, position, &mut rows)?;
                take_made(&rows, made, end, take)?;
                made += rows.len() as u64;
                position += part.num_rows() as u64;
            }
        }
        Ok(())
    }
}
