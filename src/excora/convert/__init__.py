"""extrapolate_: give the attention layers and pools of an existing model extrapolation, in place.

One file a library: :mod:`multihead` (torch), :mod:`torchmil`, :mod:`timm`, :mod:`rtdl`, :mod:`transformers`; none of
them needs its library. :func:`register_adapter` adds a layer of your own.
"""

from excora.convert.adapter import Converted, register_adapter
from excora.convert.conversion import Conversion
from excora.convert.core import Selector, extrapolate_, load

__all__ = ["Conversion", "Converted", "Selector", "extrapolate_", "load", "register_adapter"]
