//! What Python hands over as plain tuples, checked.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::program::{Condition, Node, Program, Test};
use super::span::{Role, Span, HOLES};
use super::template::{Call, Patch, Piece, Template, UsedBy};

/// Attribute, kind of its role, number of the count or hole.
pub type RoleOf = (String, String, u8);
type NodeOf = (String, i128, i128);
type ConditionOf = (String, u8, u8, bool);
type PieceOf = (String, u8, Vec<u8>);
type PatchOf = (String, usize, u8, u64);
type UsedOf = (
    Option<String>,
    Option<String>,
    u64,
    Option<String>,
    Option<String>,
    Option<u8>,
);

#[derive(FromPyObject)]
pub struct CallOf {
    record: Vec<PieceOf>,
    row: Vec<u8>,
    patches: Vec<PatchOf>,
    used: UsedOf,
    tokens: u8,
    service: Option<String>,
    is_missing: bool,
    unpriced: Option<String>,
}

/// A template as `gateway.rules.templates.Template` has it.
#[derive(FromPyObject)]
pub struct Lesson {
    nodes: Vec<NodeOf>,
    conditions: Vec<ConditionOf>,
    is_ignored: bool,
    is_suppressed: bool,
    ai_source: Option<(Option<String>, String)>,
    call: Option<CallOf>,
}

/// The role of each attribute of *span*, in its order.
pub fn roles(span: &Span, roles: Vec<RoleOf>) -> PyResult<Vec<Role>> {
    let mut known = ahash::AHashMap::new();
    for (name, kind, number) in roles {
        let is_hole = usize::from(number) < HOLES;
        let role = match kind.as_str() {
            "key" => Role::Key,
            "count" => Role::Count(number),
            "hole" if is_hole => Role::Hole(number),
            "behind" if is_hole => Role::Behind(number),
            "searched" => Role::Searched,
            _ => return Err(PyValueError::new_err("no such role")),
        };
        known.insert(name.into_bytes(), role);
    }
    let of = |name: &[u8]| known.get(name).copied().unwrap_or(Role::Unread);
    Ok(span.attributes.iter().map(|(name, _)| of(name)).collect())
}

impl Lesson {
    /// `None` where it is none that can be followed. *refused*: why Python reads such spans, "" where
    /// it need not.
    pub fn template(self, refused: &str) -> Option<Template> {
        let program = Program {
            nodes: self.nodes.into_iter().map(node).collect::<Option<_>>()?,
            conditions: self
                .conditions
                .into_iter()
                .map(condition)
                .collect::<Option<_>>()?,
        };
        let template = Template {
            program,
            is_ignored: self.is_ignored,
            is_suppressed: self.is_suppressed,
            ai_source: self.ai_source.map(Arc::new),
            refused: (!refused.is_empty()).then(|| refused.into()),
            call: match self.call {
                Some(call) => Some(call.call()?),
                None => None,
            },
        };
        template.is_sound().then_some(template)
    }
}

impl CallOf {
    fn call(self) -> Option<Call> {
        let (service, device, instance, session, model, session_hole) = self.used;
        if session_hole.is_some_and(|hole| usize::from(hole) >= HOLES) {
            return None;
        }
        Some(Call {
            record: self.record.into_iter().map(piece).collect::<Option<_>>()?,
            row: self.row.into(),
            patches: self.patches.into_iter().map(patch).collect::<Option<_>>()?,
            used_by: Arc::new(UsedBy {
                service,
                device,
                instance,
                session,
                model,
                session_hole,
            }),
            tokens: self.tokens,
            service: self.service.map(Into::into),
            is_missing: self.is_missing,
            unpriced: self.unpriced.map(Into::into),
        })
    }
}

fn node((kind, a, b): NodeOf) -> Option<Node> {
    let (left, right) = (u8::try_from(a), u8::try_from(b));
    Some(match kind.as_str() {
        "const" => Node::Const(a),
        "count" => Node::Count(left.ok()?),
        "start_ns" => Node::StartNs,
        "end_ns" => Node::EndNs,
        "received_ms" => Node::ReceivedMs,
        "add" => Node::Add(left.ok()?, right.ok()?),
        "sub" => Node::Sub(left.ok()?, right.ok()?),
        "mul" => Node::Mul(left.ok()?, right.ok()?),
        "div" => Node::Div(left.ok()?, i64::try_from(b).ok()?),
        "rem" => Node::Rem(left.ok()?, i64::try_from(b).ok()?),
        _ => return None,
    })
}

fn condition((kind, left, right, expected): ConditionOf) -> Option<Condition> {
    let test = match kind.as_str() {
        "less" => Test::Less,
        "at_most" => Test::AtMost,
        "equal" => Test::Equal,
        _ => return None,
    };
    Some(Condition {
        test,
        left,
        right,
        expected,
    })
}

fn piece((kind, number, text): PieceOf) -> Option<Piece> {
    Some(match kind.as_str() {
        "text" => Piece::Text(text.into()),
        "number" => Piece::Number(number),
        "money" => Piece::Money(number),
        "time" => Piece::Time(number),
        "hole" => Piece::Hole(number),
        "trace_id" => Piece::TraceId,
        "span_id" => Piece::SpanId,
        "parent_id" => Piece::ParentId,
        "record_id" => Piece::RecordId,
        "received" => Piece::ReceivedAt,
        _ => return None,
    })
}

fn patch((kind, at, number, changed): PatchOf) -> Option<Patch> {
    Some(match kind.as_str() {
        "number" => Patch::Number(at, number),
        "count" => Patch::Count(at, number),
        "fingerprint" => Patch::Fingerprint(at, number, changed),
        _ => return None,
    })
}
