"""Instruction set and format of the blob: the one place where they are said; ``header`` writes them for C.

Numbers are never reused, and new ones are added at the end.
"""

from atalla.isa.format import NodeKind as NodeKind
from atalla.isa.format import OutputKind as OutputKind
from atalla.isa.format import PatchKind as PatchKind
from atalla.isa.operations import OPS as OPS
from atalla.isa.operations import WEIGHTED as WEIGHTED
from atalla.isa.operations import Act as Act
from atalla.isa.operations import Norm as Norm
from atalla.isa.operations import Op as Op
from atalla.isa.operations import OpSpec as OpSpec
from atalla.isa.operations import Outside as Outside
from atalla.isa.operations import Pool as Pool
from atalla.isa.operations import Reduce as Reduce
from atalla.isa.operations import Resize as Resize
from atalla.isa.operations import Sample as Sample
from atalla.isa.operations import Scatter as Scatter
from atalla.isa.steps import STEPS as STEPS
from atalla.isa.steps import Step as Step
from atalla.isa.steps import StepSpec as StepSpec
from atalla.isa.steps import bits_of_float32 as bits_of_float32
from atalla.isa.steps import float32_of as float32_of
from atalla.isa.types import FEW_CHANNELS as FEW_CHANNELS
from atalla.isa.types import LANE as LANE
from atalla.isa.types import PAIR as PAIR
from atalla.isa.types import PANEL as PANEL
from atalla.isa.types import QUAD as QUAD
from atalla.isa.types import WINOGRAD_TILES as WINOGRAD_TILES
from atalla.isa.types import Dtype as Dtype
from atalla.isa.types import Layout as Layout
from atalla.isa.types import Space as Space
from atalla.isa.verdicts import Verdict as Verdict
