//! What Python computed with a span's numbers, recorded, and done again with others.
//!
//! A program holds for a span when each of its conditions comes out as it did in Python. Whatever
//! overflows holds for none.

/// One number. Operands are the places of numbers before it.
#[derive(Debug, Clone, Copy)]
pub enum Node {
    Const(i128),
    Count(u8),
    StartNs,
    EndNs,
    ReceivedMs,
    Add(u8, u8),
    Sub(u8, u8),
    Mul(u8, u8),
    /// Rounded down, as Python's `//`; the divisor is above 0.
    Div(u8, i64),
    Rem(u8, i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    Less,
    AtMost,
    Equal,
}

/// Whether the test of two numbers comes out as *expected*.
#[derive(Debug, Clone, Copy)]
pub struct Condition {
    pub test: Test,
    pub left: u8,
    pub right: u8,
    pub expected: bool,
}

#[derive(Debug, Default)]
pub struct Program {
    pub nodes: Vec<Node>,
    pub conditions: Vec<Condition>,
}

/// The numbers of one span that a program may ask for.
pub struct Numbers<'a> {
    pub counts: &'a [i64],
    pub start_ns: u64,
    pub end_ns: u64,
    pub received_ms: i64,
}

impl Program {
    /// Whether every operand stands before its use.
    pub fn is_sound(&self) -> bool {
        let before = |at: usize, operand: u8| usize::from(operand) < at;
        let nodes = self.nodes.iter().enumerate().all(|(at, node)| match node {
            Node::Add(a, b) | Node::Sub(a, b) | Node::Mul(a, b) => before(at, *a) && before(at, *b),
            Node::Div(a, by) | Node::Rem(a, by) => before(at, *a) && *by > 0,
            _ => true,
        });
        let most = self.nodes.len();
        nodes
            && most <= 256
            && self
                .conditions
                .iter()
                .all(|x| before(most, x.left) && before(most, x.right))
    }

    /// Compute the numbers into *values*; false where the program does not hold.
    #[inline]
    pub fn run(&self, numbers: &Numbers, values: &mut Vec<i128>) -> bool {
        values.clear();
        for node in &self.nodes {
            match compute(*node, numbers, values) {
                Some(value) => values.push(value),
                None => return false,
            }
        }
        self.conditions.iter().all(|x| x.holds(values))
    }
}

impl Condition {
    #[inline]
    fn holds(&self, values: &[i128]) -> bool {
        let (left, right) = (
            values[usize::from(self.left)],
            values[usize::from(self.right)],
        );
        let found = match self.test {
            Test::Less => left < right,
            Test::AtMost => left <= right,
            Test::Equal => left == right,
        };
        found == self.expected
    }
}

#[inline]
fn compute(node: Node, numbers: &Numbers, values: &[i128]) -> Option<i128> {
    let at = |place: u8| values[usize::from(place)];
    match node {
        Node::Const(value) => Some(value),
        Node::Count(number) => numbers
            .counts
            .get(usize::from(number))
            .map(|x| i128::from(*x)),
        Node::StartNs => Some(i128::from(numbers.start_ns)),
        Node::EndNs => Some(i128::from(numbers.end_ns)),
        Node::ReceivedMs => Some(i128::from(numbers.received_ms)),
        Node::Add(a, b) => at(a).checked_add(at(b)),
        Node::Sub(a, b) => at(a).checked_sub(at(b)),
        Node::Mul(a, b) => at(a).checked_mul(at(b)),
        Node::Div(a, by) => Some(divided(at(a), by).0),
        Node::Rem(a, by) => Some(divided(at(a), by).1),
    }
}

/// Quotient and remainder; in 64 bits where the number fits, which takes a tenth of the time.
#[inline]
fn divided(value: i128, by: i64) -> (i128, i128) {
    match i64::try_from(value) {
        Ok(small) => (
            i128::from(small.div_euclid(by)),
            i128::from(small.rem_euclid(by)),
        ),
        Err(_) => (
            value.div_euclid(i128::from(by)),
            value.rem_euclid(i128::from(by)),
        ),
    }
}
