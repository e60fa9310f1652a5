//! OTLP traces in protobuf -> records, rows of the ledger and links.
//!
//! The rules stand in Python. It reads a span of each shape, and teaches what the record, the row
//! and the sums of its spans are as a function of what varies (`gateway/rules/templates.py`).

mod lesson;
mod memory;
mod program;
mod read;
mod span;
mod template;
mod wire;
mod write;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, RwLock};

use ahash::AHashSet;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};

use lesson::{Lesson, RoleOf};
use memory::{Memory, Profile};
use read::{Output, Request, Together};
use span::{key_of, Span, Varying};

/// Reads payloads by the templates that it was taught. Shared by threads.
#[pyclass(frozen)]
struct Reader {
    memory: RwLock<Memory>,
    /// Texts that a rule takes for no value.
    words: AHashSet<Vec<u8>>,
    records_scope: String,
}

#[pymethods]
impl Reader {
    #[new]
    fn new(words: Vec<String>, records_scope: String, max_bytes: usize) -> Self {
        Reader {
            memory: RwLock::new(Memory::new(max_bytes)),
            words: words.into_iter().map(String::into_bytes).collect(),
            records_scope,
        }
    }

    /// What the spans of *body* come to, and the gaps that Python reads; None where it has to read
    /// all of it.
    #[allow(clippy::too_many_arguments)]
    fn read<'py>(
        &self,
        py: Python<'py>,
        context: u32,
        body: &[u8],
        received_ms: i64,
        received_at: &str,
        max_items: usize,
        max_gaps: usize,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let request = Request {
            context,
            body,
            received_ms,
            received_at: received_at.as_bytes(),
            max_items,
            records_scope: &self.records_scope,
            max_gaps,
        };
        let is_word = |text: &[u8]| self.words.contains(text);
        let run = || {
            catch_unwind(AssertUnwindSafe(|| {
                read::read(&request, &self.memory, &is_word)
            }))
        };
        let done = if body.len() > SMALL_BYTES {
            py.detach(run)
        } else {
            run()
        };
        match done {
            Ok(Ok(output)) => shown(py, &output, body).map(Some),
            _ => Ok(None),
        }
    }

    /// What the spans of several *bodies* come to together, what each service sent in them, and the
    /// places of the bodies that are to be read one by one: each by itself, as `read` has gaps in it
    /// or takes none of it.
    fn read_together<'py>(
        &self,
        py: Python<'py>,
        context: u32,
        bodies: Vec<PyBackedBytes>,
        received_ms: i64,
        received_at: &str,
        max_items: usize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let is_word = |text: &[u8]| self.words.contains(text);
        let size = bodies.iter().map(|body| body.len()).sum();
        let run = || {
            let mut together = Together::new(size);
            for (place, body) in bodies.iter().enumerate() {
                let request = Request {
                    context,
                    body,
                    received_ms,
                    received_at: received_at.as_bytes(),
                    max_items,
                    records_scope: &self.records_scope,
                    max_gaps: 1,
                };
                let read = || read::read(&request, &self.memory, &is_word);
                match catch_unwind(AssertUnwindSafe(read)) {
                    Ok(Ok(one)) if one.can_be_added() => together.add(one, body.len()),
                    _ => together.left.push(place),
                }
            }
            together
        };
        let done = if size > SMALL_BYTES {
            py.detach(run)
        } else {
            run()
        };
        shown_together(py, &done)
    }

    /// Note how spans of a scope with the names of *span* are read.
    ///
    /// *roles*: attribute -> (kind, number); *refused*: why Python reads all of them.
    #[allow(clippy::too_many_arguments)]
    fn learn(
        &self,
        context: u32,
        resource: &[u8],
        scope: &[u8],
        span: &[u8],
        service: Option<&str>,
        roles: Vec<RoleOf>,
        reads_name: bool,
        refused: Option<&str>,
    ) -> PyResult<()> {
        let known = walked(span)?;
        let roles = lesson::roles(&known, roles)?;
        let refused = if known.repeats_a_name() {
            Some("repeated_name")
        } else {
            refused
        };
        let profile = Profile::new(roles, reads_name, refused.map(Into::into));
        let (mut key, mut names) = (Vec::new(), Vec::new());
        read::scope_key(context, resource, scope, &mut key);
        known.names_into(&mut names);
        self.memory
            .write()
            .map_err(poisoned)?
            .learn(&key, service, &names, profile);
        Ok(())
    }

    /// Teach the template of *span*'s shape, or why Python reads such spans: where what *template*
    /// has of computations comes out the same, or all of the shape. `learn` comes before.
    fn teach(
        &self,
        context: u32,
        resource: &[u8],
        scope: &[u8],
        span: &[u8],
        template: Option<Lesson>,
        refused: &str,
    ) -> PyResult<()> {
        let known = walked(span)?;
        let (mut key, mut names) = (Vec::new(), Vec::new());
        read::scope_key(context, resource, scope, &mut key);
        known.names_into(&mut names);
        let template = match template {
            Some(lesson) => Ok(lesson
                .template(refused)
                .ok_or_else(|| PyValueError::new_err("no template"))?),
            None => Err(Arc::from(refused)),
        };
        let mut memory = self.memory.write().map_err(poisoned)?;
        let Some((_, profile)) = memory.profile(&key, &names) else {
            return Ok(());
        };
        if profile.refused.is_some() {
            return Ok(());
        }
        let is_word = |text: &[u8]| self.words.contains(text);
        key_of(
            &known,
            &profile.roles,
            profile.reads_name,
            &is_word,
            &mut key,
            &mut Varying::default(),
        );
        memory.add(&profile, &key, template);
        Ok(())
    }

    /// Forget everything: prices or rules changed.
    fn clear(&self) -> PyResult<()> {
        self.memory.write().map_err(poisoned)?.clear();
        Ok(())
    }

    /// About how many bytes the templates take.
    #[getter]
    fn bytes(&self) -> PyResult<usize> {
        Ok(self.memory.read().map_err(poisoned)?.bytes)
    }
}

/// Reading a larger body leaves the interpreter to others.
const SMALL_BYTES: usize = 4 * 1024;

fn poisoned<T>(_: T) -> PyErr {
    PyValueError::new_err("the memory of templates is broken")
}

fn walked(message: &[u8]) -> PyResult<Span<'_>> {
    let mut span = Span::default();
    span.read(message)
        .map_err(|_| PyValueError::new_err("no such span"))?;
    Ok(span)
}

/// The parts of what was read that one payload and several have in common.
struct Shown<'py> {
    counts: (usize, usize, usize),
    /// Records, rows and links.
    parts: Bound<'py, PyTuple>,
    used: Bound<'py, PyList>,
    ai_spans: Bound<'py, PyList>,
    unpriced: Bound<'py, PyList>,
}

impl<'py> Shown<'py> {
    fn of(py: Python<'py>, out: &Output) -> PyResult<Self> {
        let mut begin = 0;
        let records = PyList::empty(py);
        for end in &out.ends {
            records.append(PyBytes::new(py, &out.records[begin..*end]))?;
            begin = *end;
        }
        let used = PyList::empty(py);
        for ((by, session), tokens) in &out.used.entries {
            let varying = std::str::from_utf8(session).unwrap_or_default();
            let session = if by.session_hole.is_some() {
                Some(varying)
            } else {
                by.session.as_deref()
            };
            used.append((
                by.service.as_deref(),
                by.device.as_deref(),
                by.instance,
                session,
                by.model.as_deref(),
                *tokens,
            ))?;
        }
        let ai_spans = PyList::empty(py);
        for (source, spans) in &out.ai_spans.entries {
            let mut traces: Vec<&Vec<u8>> = spans.traces.iter().collect();
            traces.sort_unstable();
            let traces = PyList::new(py, traces.iter().map(|trace| PyBytes::new(py, trace)))?;
            ai_spans.append((source.0.as_deref(), &source.1, spans.n, traces))?;
        }
        let unpriced = PyList::empty(py);
        for (model, calls) in &out.unpriced.entries {
            unpriced.append((&**model, *calls))?;
        }
        let rows = PyBytes::new(py, &out.rows);
        let links = PyBytes::new(py, &out.links);
        Ok(Shown {
            counts: (out.items, out.ignored, out.suppressed),
            parts: (records, rows, links).into_pyobject(py)?,
            used,
            ai_spans,
            unpriced,
        })
    }
}

fn shown<'py>(py: Python<'py>, out: &Output, body: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    let reported = PyList::empty(py);
    for (service, sums) in &out.reported.entries {
        reported.append((
            service.as_deref(),
            sums.items.max(sums.calls),
            sums.calls,
            sums.missing,
        ))?;
    }
    let gaps = PyList::empty(py);
    let last = out.gaps.len().saturating_sub(1);
    for (number, gap) in out.gaps.iter().enumerate() {
        if out.is_whole && number < last && (gap.is_repeated || !gap.reason.is_empty()) {
            continue; // neither read by itself nor learnt
        }
        let part = |range: &std::ops::Range<usize>| {
            PyBytes::new(py, body.get(range.clone()).unwrap_or_default())
        };
        gaps.append((
            part(&gap.resource),
            part(&gap.scope),
            part(&gap.span),
            gap.calls,
            gap.links,
            &*gap.reason,
            gap.is_repeated,
        ))?;
    }
    let shown = Shown::of(py, out)?;
    (
        shown.counts,
        shown.parts,
        shown.used,
        reported,
        shown.ai_spans,
        shown.unpriced,
        gaps,
        out.is_whole,
    )
        .into_pyobject(py)
}

fn shown_together<'py>(py: Python<'py>, done: &Together) -> PyResult<Bound<'py, PyTuple>> {
    let sent = PyList::empty(py);
    for (service, sums) in &done.sent.entries {
        sent.append((
            service.as_deref(),
            sums.requests,
            sums.counts.items,
            sums.counts.calls,
            sums.counts.missing,
            sums.bytes,
        ))?;
    }
    let shown = Shown::of(py, &done.output)?;
    (
        shown.counts,
        shown.parts,
        shown.used,
        shown.ai_spans,
        shown.unpriced,
        sent,
        &done.left,
    )
        .into_pyobject(py)
}

pub fn export(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Reader>()
}
