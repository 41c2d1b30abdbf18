// Draws boxes with a label into a picture.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/data/image.h"
#include "runtime/data/resample.h"

namespace trireme {

/// Draws the edges of a box, and above them the label, in a colour that follows from `colour`. Parts outside
/// of the picture are left out. The font has capital letters, digits and a few signs; other characters are
/// shown as question marks.
void draw_box(Image& image, const ImageBox& box, std::string_view label, std::int32_t colour);

}  // namespace trireme
