"""Who may be what to somebody: two people of one name are told apart by their roles."""

from __future__ import annotations

from shepherd.entities.lexicon import ROLE_GROUPS, ROLES, WORKING
from shepherd.entities.records import Entity

__all__ = ["family_of", "go_together", "has_relation", "may_also_be"]


def family_of(label: str) -> str:
    """Which kin a relation ("sister of") tells of; empty for one that is no kin."""
    group = ROLE_GROUPS.get(_role(label), "")
    return "" if group == WORKING else group


def has_relation(entity: Entity, label: str, owner: int) -> bool:
    """Whether an entity is `label` ("sister of") the owner."""
    return any(one.label == label and one.target == owner for one in entity.relations)


def may_also_be(entity: Entity, label: str, owner: int) -> bool:
    """Whether what an entity is to the owner leaves room for `label`: a sister is not the boss."""
    theirs = [one.label for one in entity.relations if one.target == owner]
    return label in theirs or all(go_together(known, label) for known in theirs)


def go_together(label: str, other: str) -> bool:
    """Whether one person may be both to somebody."""
    role, other_role = _role(label), _role(other)
    group, other_group = ROLE_GROUPS.get(role, ""), ROLE_GROUPS.get(other_role, "")
    if not group or not other_group:
        return True
    if group != other_group:
        return False
    return ROLES[role] == ROLES[other_role] or "" in (ROLES[role], ROLES[other_role])


def _role(label: str) -> str:
    return label.removesuffix(" of")
