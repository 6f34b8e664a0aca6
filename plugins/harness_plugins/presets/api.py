"""What other plugins may use of `presets`: the service, what an agent joins, errors."""

from .errors import PresetError as PresetError
from .errors import UnknownPresetError as UnknownPresetError
from .generation import Generation as Generation
from .generation import Joined as Joined
from .service import Presets as Presets
from .service import find_presets as find_presets

__all__ = ["Generation", "Joined", "PresetError", "Presets", "UnknownPresetError", "find_presets"]
