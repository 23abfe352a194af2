"""What fitted models tell of their columns and of single rows."""

from bochner.explanations.attribution import Explanation
from bochner.explanations.effects import Effect, Effects
from bochner.explanations.importance import Importance
from bochner.explanations.interactions import Interactions

__all__ = ["Effect", "Effects", "Explanation", "Importance", "Interactions"]
