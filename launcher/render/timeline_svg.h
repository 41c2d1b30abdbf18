// A timeline as SVG without scripts: ranks over time.
#pragma once

#include <string>

#include "parallel/plan/timeline.h"

namespace trireme {

/// A complete SVG document: one row per rank, one box per span with its micro-batch, communication in a thin
/// lane below, gaps in the colour of the bubble. Has a legend, a time axis in ms, and the bubble's share as
/// text. Boxes have tooltips. Colours suit light and dark mode; printing uses the light ones. `title` and
/// `note` are plain text.
std::string to_svg(const Timeline& timeline, const std::string& title, const std::string& note);

}  // namespace trireme
