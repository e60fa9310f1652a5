"""A body as a tree of what its format is made of, which a random generator changes step by step.

A tree knows no format: what its nodes are called, what they hold and how they are written is the
matter of a `Grammar`. One node of a tree is repeated until the body has its size.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol

TIMES = (1, 1, 2, 3, 10, 100, 1000, 10_000)
MAX_DEPTH = 40
MAX_NODES = 400
"""Of a tree, each counted once, however often it is repeated."""

MAX_BULK = 300_000
"""Nodes and bytes of a tree before it is filled."""

Place = tuple[int, ...]
"""The way to a node: which child at each level."""


class Node(NamedTuple):
    kind: str
    """Of value: one of the grammar's."""
    name: bytes = b""
    """What its parent knows it by: a field's number, a member's name."""
    value: str | bytes = b""
    """As it is written, or the name of a value that the grammar makes."""
    times: int = 1
    below: tuple["Node", ...] = ()


class Grammar(Protocol):
    """How the trees of one format are made and written."""

    def leaf(self, chance: Random) -> Node: ...

    def container(self, chance: Random) -> Node:
        """Without children."""

    def named(self, node: Node, chance: Random) -> Node:
        """The same with another name, or of another kind."""

    def write(self, node: Node) -> bytes:
        """The body of the tree *node*."""


class Shape(NamedTuple):
    """A tree, and the node of it that fills the body."""

    root: Node
    filling: Place = ()

    def body(self, grammar: Grammar, size: int) -> bytes:
        """About *size* bytes, unless the tree is larger by itself."""
        return grammar.write(self.filled(grammar, size))

    def filled(self, grammar: Grammar, size: int) -> Node:
        """The tree of such a body."""
        one = len(grammar.write(self._repeated(1)))
        two = len(grammar.write(self._repeated(2)))
        return self._repeated(max(1, 1 + (size - one) // max(1, two - one)))

    def unit(self) -> Node:
        """What fills the body."""
        return at(self.root, self.filling)

    def _repeated(self, times: int) -> Node:
        return replaced(self.root, self.filling, at(self.root, self.filling)._replace(times=times))


def at(root: Node, place: Place) -> Node:
    for number in place:
        root = root.below[number]
    return root


def replaced(root: Node, place: Place, *nodes: Node) -> Node:
    """*root* with *nodes* in place of the one there; the root itself is replaced by the first."""
    if not place:
        return nodes[0]
    number, *rest = place
    below = root.below
    inner = (replaced(below[number], tuple(rest), *nodes),) if rest else nodes
    return root._replace(below=(*below[:number], *inner, *below[number + 1 :]))


def bulk(node: Node) -> int:
    """About how many bytes *node* takes."""
    return node.times * (2 + len(node.value) + sum(map(bulk, node.below)))


def places(root: Node, here: Place = ()) -> list[Place]:
    """Of all nodes, the root first."""
    return [here, *(place for n, each in enumerate(root.below) for place in places(each, (*here, n)))]


def changed(shape: Shape, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Shape:
    """*shape* after one to three random changes; *others* lend it parts."""
    root, filling = shape
    for _ in range(chance.choice((1, 1, 2, 3))):
        made = chance.choice(CHANGES)(root, grammar, chance, others)
        known = places(made)
        if len(known) <= MAX_NODES and max(map(len, known)) <= MAX_DEPTH and bulk(made) <= MAX_BULK:
            root = made
    known = places(root)
    if filling not in known or not filling or chance.random() < 0.3:
        filling = chance.choice([place for place in known if place] or [()])
    return Shape(root, filling)


def repeats(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    place = inner_place(root, chance)
    return replaced(root, place, at(root, place)._replace(times=chance.choice(TIMES))) if place else root


def nests(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    """A node goes into a new one, several levels deep at times."""
    place = inner_place(root, chance)
    if not place:
        return root
    node = at(root, place)
    for _ in range(chance.choice((1, 1, 1, 5, 30))):
        node = grammar.container(chance)._replace(below=(node,))
    return replaced(root, place, node)


def unwraps(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    place = inner_place(root, chance)
    return replaced(root, place, *at(root, place).below) if place else root


def adds(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    place = chance.choice(places(root))
    node = at(root, place)
    made = grammar.leaf(chance) if chance.random() < 0.7 else grammar.container(chance)
    number = chance.randint(0, len(node.below))
    if place and not node.below and chance.random() < 0.8:
        return replaced(root, place, node, made)
    return replaced(root, place, node._replace(below=(*node.below[:number], made, *node.below[number:])))


def drops(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    place = inner_place(root, chance)
    return replaced(root, place) if place else root


def doubles(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    place = inner_place(root, chance)
    return replaced(root, place, at(root, place), at(root, place)) if place else root


def reorders(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    place = chance.choice(places(root))
    node = at(root, place)
    return replaced(root, place, node._replace(below=tuple(chance.sample(node.below, len(node.below)))))


def renames(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    place = inner_place(root, chance)
    return replaced(root, place, grammar.named(at(root, place), chance)) if place else root


def revalues(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    place = inner_place(root, chance)
    if not place:
        return root
    node = at(root, place)
    made = grammar.leaf(chance)
    return replaced(root, place, node._replace(kind=made.kind, value=made.value, below=()))


def grafts(root: Node, grammar: Grammar, chance: Random, others: Sequence[Shape]) -> Node:
    place, other = inner_place(root, chance), chance.choice(others).root
    lent = inner_place(other, chance)
    return replaced(root, place, at(other, lent)) if place and lent else root


CHANGES = (repeats, nests, unwraps, adds, adds, drops, doubles, reorders, renames, revalues, revalues, grafts)


def inner_place(root: Node, chance: Random) -> Place:
    """Of any node but the root; empty where there is no other."""
    return chance.choice(places(root)[1:] or [()])
