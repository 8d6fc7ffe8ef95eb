"""Pools: one file a family, every pool with the same call and the same result."""

from excora.pooling.base import Pool, Pooled, make_pool, parameter_groups, pools, register_pool
from excora.pooling.eca import ECAPool
from excora.pooling.plain import GatedPool, GatedScorer, LinearScorer, MeanPool, SoftmaxPool

__all__ = [
    "ECAPool",
    "GatedPool",
    "GatedScorer",
    "LinearScorer",
    "MeanPool",
    "Pool",
    "Pooled",
    "SoftmaxPool",
    "make_pool",
    "parameter_groups",
    "pools",
    "register_pool",
]
