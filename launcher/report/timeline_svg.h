// A timeline as a picture: ranks by time, in SVG without scripts.
#pragma once

#include <string>

#include "parallel/foresee/timeline.h"

namespace trireme {

/// A whole SVG document: a row a rank, a box a span with its micro-batch, communication in a thin lane below,
/// gaps in the colour of the bubble; legend, time axis in ms, and the bubble's share as text. Boxes carry
/// their label as a tooltip. Readable in light and dark; on paper, light. `title` and `note` are plain text.
std::string to_svg(const Timeline& timeline, const std::string& title, const std::string& note);

}  // namespace trireme
