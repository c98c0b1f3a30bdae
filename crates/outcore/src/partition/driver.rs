//! The common parts of all two-phase jobs' drivers, from the inputs to the output's name.
//!
//! Contract: [`Ends`] are a job's opened and checked inputs, and the destinations of its output and
//! scratch. [`Ends::write`] writes the staged output with its header and its edges. [`Ends::close`]
//! publishes it after checking that the inputs are unchanged and, if asked, that the output on the
//! drive is what was written. If an earlier step fails, no output remains.

use std::io::Write;
use std::sync::{Arc, PoisonError};

use super::LazyScratch;
use super::checkpoint::LastRecord;
use super::restored::Finished;
use super::task::Sink;
use crate::ends::{
    DriveTraffic, Input, Output, Phase, Phases, check_unchanged, edge_pool, input_places,
    make_scratch, open_inputs, scratch_drives, stage_output, stage_output_in, traffic_by_drive,
};
use crate::forecast::PhasePlan;
use crate::job::{Job, Layout, OutputPlaces};
use crate::read::source::InputPart;
use crate::read_back::{self, VERIFY_OUTPUT};
use crate::writer::Writer;
use outcore_io::drive::{Access, PrivateDir};
use outcore_io::output::{Room, StagedOutput};
use outcore_io::port::{ScratchDrive, Volume};
use outcore_io::scratch::Scratch;
use outcore_io::{Error, Result};

/// Inputs and destinations of a job.
pub(crate) struct Ends<'o> {
    pub(crate) volume: Arc<Volume>,
    pub(crate) parts: Vec<InputPart>,
    /// Bytes of all inputs.
    pub(crate) data_bytes: u64,
    output: &'o Output,
    element_bytes: usize,
    drives: Vec<ScratchDrive>,
}

/// The result of writing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    /// Number of items, for a header.
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

/// Reads a staged output back and fails if it differs from the output that the job wrote.
pub(crate) type ReadBack<'a> =
    Box<dyn FnOnce(&Job, &Volume, read_back::Written<'_>) -> Result<()> + 'a>;

/// A written output that has no name yet.
pub(crate) struct Unnamed<'a> {
    pub(crate) staged: Option<StagedOutput>,
    pub(crate) written: Written,
    /// The journal, and the items that the job has read, if it can be resumed.
    pub(crate) journal: Option<LastRecord>,
    pub(crate) items_in: u64,
    /// The check of the output, if the job requests it.
    pub(crate) read_back: Option<ReadBack<'a>>,
}

impl Unnamed<'_> {
    /// The output of a job without a journal.
    pub(crate) fn of(staged: Option<StagedOutput>, written: Written) -> Self {
        Unnamed {
            staged,
            written,
            journal: None,
            items_in: written.items,
            read_back: None,
        }
    }

    /// On request, reads back the output, which begins with this header; returns whether it was
    /// read back.
    fn verify(&mut self, job: &Job, volume: &Volume, header: &[u8]) -> Result<bool> {
        let (Some(read_back), Some(staged)) = (self.read_back.take(), &self.staged) else {
            return Ok(false);
        };
        job.control.begin_phase(VERIFY_OUTPUT, self.written.bytes);
        staged.sync(volume)?;
        let data_bytes = self.written.bytes;
        let written = read_back::Written { staged, data_bytes };
        read_back::header(job, volume, written, header)?;
        read_back(job, volume, written)?;
        Ok(true)
    }

    /// Gives the output its name; returns the private directories to remove.
    fn publish(self, volume: &Volume) -> Result<Vec<PrivateDir>> {
        let Unnamed {
            staged,
            written,
            journal,
            items_in,
            ..
        } = self;
        let Some(staged) = staged else {
            return Ok(Vec::new());
        };
        let Some(journal) = journal else {
            return staged.publish(volume, written.bytes).map(|()| Vec::new());
        };
        staged.publish_vouched(volume, written.bytes, |file| {
            let facts = volume.device().facts(file.id)?;
            journal.finish(volume, &Finished::of(&facts, written.items, items_in))
        })
    }
}

/// The figures of a job that all summaries contain.
#[derive(Default)]
pub(crate) struct Served {
    /// Wall time.
    pub(crate) seconds: f64,
    /// Bytes read from all drives.
    pub(crate) read_bytes: u64,
    /// Bytes written to all drives.
    pub(crate) written_bytes: u64,
    /// Most scratch in use at once.
    pub(crate) scratch_bytes: u64,
    /// The phases in order.
    pub(crate) phases: Vec<Phase>,
    /// (name, bytes read, bytes written) of each drive.
    pub(crate) drives: Vec<DriveTraffic>,
}

impl<'o> Ends<'o> {
    /// Opens `inputs` of elements of `element_bytes`, 1 for those of varying lengths.
    pub(crate) fn open(
        job: &Job,
        inputs: &[Input],
        output: &'o Output,
        element_bytes: usize,
        access: Access,
    ) -> Result<Self> {
        if let Some(input) = inputs.first() {
            job.control.note_input(&input.path);
        }
        let drives = scratch_drives(job, output);
        let volume = Arc::new(Volume::new(Arc::clone(&job.device), &drives)?);
        let parts = open_inputs(&volume, inputs, element_bytes, access)?;
        Ok(Ends {
            data_bytes: parts.iter().map(|part| part.data_len_bytes).sum(),
            volume,
            parts,
            output,
            element_bytes,
            drives,
        })
    }

    /// The layout of the job, which writes files at `outputs`.
    pub(crate) fn layout(&self, job: &Job, outputs: &OutputPlaces) -> Layout {
        job.layout_on(&input_places(&self.parts), outputs, &self.drives)
    }

    /// Stages the output for `data_bytes`; `None` for a pipe.
    pub(crate) fn stage(
        &self,
        replace: bool,
        room: Room,
        data_bytes: u64,
    ) -> Result<Option<StagedOutput>> {
        stage_output(
            &self.volume,
            self.output,
            replace,
            room,
            data_bytes,
            self.element_bytes,
        )
    }

    /// Like `stage`, but in `dir`, a private directory next to the output, which may hold the
    /// unfinished output of a dead job.
    pub(crate) fn stage_in(
        &self,
        dir: PrivateDir,
        replace: bool,
        room: Room,
        data_bytes: u64,
    ) -> Result<Option<StagedOutput>> {
        stage_output_in(
            &self.volume,
            self.output,
            replace,
            room,
            data_bytes,
            self.element_bytes,
            Some(dir),
        )
    }

    /// The scratch that a dead job has left in `dirs`, with logs that end at `ends_bytes`.
    pub(crate) fn scratch_again(
        &self,
        job: &Job,
        dirs: Vec<PrivateDir>,
        ends_bytes: &[u64],
        scratch_bytes: u64,
    ) -> Result<LazyScratch<'static>> {
        let limit_bytes = job.options.scratch_limit_bytes;
        let (volume, drives) = (&self.volume, &self.drives[..]);
        Scratch::reopen(volume, drives, dirs, ends_bytes, limit_bytes, scratch_bytes)
            .map(LazyScratch::of)
    }

    /// Scratch of this size, made now if it is certainly needed.
    pub(crate) fn scratch<'a>(
        &'a self,
        job: &'a Job,
        scratch_bytes: u64,
        is_needed: bool,
    ) -> Result<LazyScratch<'a>> {
        let make = move || make_scratch(job, &self.volume, &self.drives, scratch_bytes);
        let scratch = LazyScratch::new(make);
        if is_needed {
            scratch.get()?;
        }
        Ok(scratch)
    }

    /// Writes the output: `write` passes the data to the sink, and the header is written before
    /// them.
    pub(crate) fn write(
        &self,
        job: &Job,
        staged: Option<&StagedOutput>,
        write: impl FnOnce(Sink<'_>) -> Result<Written>,
    ) -> Result<Written> {
        let edges = edge_pool(job)?;
        let is_journaled = job.options.resume.is_some();
        let writer = staged.map(|staged| match Writer::new(staged, edges) {
            writer if is_journaled => writer.noting_writes(),
            writer => writer,
        });
        let written = match (&writer, self.output) {
            (Some(writer), _) => write(Sink::Files(writer))?,
            (None, Output::Pipe(pipe)) => write(Sink::Pipe(pipe))?,
            (None, _) => Written::default(),
        };
        if let Some(writer) = &writer {
            let mut port = self.volume.port()?;
            writer.write_header(&mut port, &self.header_of(staged, written.items));
            writer.finish(&mut port, written.bytes)?;
        }
        if let Output::Pipe(pipe) = self.output {
            let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
            pipe.flush().map_err(|e| Error::io("write output", &e))?;
        }
        Ok(written)
    }

    /// The header of an output with this many items, in its planned length; empty if it has none.
    fn header_of(&self, staged: Option<&StagedOutput>, items: u64) -> Vec<u8> {
        let shard = staged.and_then(|staged| staged.shards().first());
        let make = match self.output {
            Output::File { header, .. } => header.as_ref(),
            _ => None,
        };
        let made = shard.zip(make).map(|(shard, make)| {
            let mut header = make(items);
            header.resize(shard.plan.header.len(), b' ');
            header
        });
        made.unwrap_or_default()
    }

    /// Returns scratch, reads the staged output back if asked, and publishes it if the inputs are
    /// unchanged; `is_consumed` if this job has freed their blocks. Phases are shown with their
    /// predictions in `planned`.
    pub(crate) fn close(
        &self,
        job: &Job,
        mut phases: Phases,
        mut unnamed: Unnamed<'_>,
        scratch: Option<Scratch>,
        is_consumed: bool,
        planned: &[PhasePlan],
    ) -> Result<Served> {
        // Once the output has its name, it may be the only copy of the data.
        check_unchanged(&self.volume, &self.parts, is_consumed)?;
        let scratch_bytes = scratch.as_ref().map_or(0, Scratch::peak_bytes);
        // Publishing needs space for names and records, so scratch is removed first. It stays if it
        // holds data that the inputs no longer have, or if a journal vouches for it.
        let kept = match scratch {
            Some(scratch) if !is_consumed && !scratch.is_kept() => {
                scratch.remove();
                None
            }
            other => other,
        };
        let header = self.header_of(unnamed.staged.as_ref(), unnamed.written.items);
        if unnamed.verify(job, &self.volume, &header)? {
            phases.end(VERIFY_OUTPUT, &self.volume);
        }
        let dirs = match unnamed.staged.is_some() {
            true => {
                job.control.begin_phase("publish", 0);
                unnamed.publish(&self.volume)?
            }
            false => Vec::new(),
        };
        if let Some(scratch) = kept {
            scratch.remove();
        }
        // The journal goes last: until then, the next run knows that the output is finished.
        drop(dirs);
        phases.end("publish", &self.volume);
        let (read_bytes, written_bytes) = self.volume.traffic_bytes();
        let seconds = phases.started.elapsed().as_secs_f64();
        let phases = phases.beside(planned);
        judge_speeds(job, &phases);
        Ok(Served {
            seconds,
            read_bytes,
            written_bytes,
            scratch_bytes,
            phases,
            drives: traffic_by_drive(&self.volume),
        })
    }
}

/// Compares the times of the phases with the predictions, so that the job drops measured speeds
/// that are far off.
fn judge_speeds(job: &Job, phases: &[Phase]) {
    let (mut predicted_s, mut actual_s) = (0.0, 0.0);
    for phase in phases {
        let plan = phase.predicted.as_ref().filter(|plan| !plan.is_bound());
        if let Some(seconds) = plan.and_then(PhasePlan::measured_seconds) {
            predicted_s += seconds;
            actual_s += phase.seconds;
        }
    }
    if actual_s > 0.0 {
        job.options.speeds.judge(predicted_s, actual_s);
    }
}
