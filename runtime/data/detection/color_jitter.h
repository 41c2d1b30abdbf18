// Random changes of hue, saturation and value.
#pragma once

#include <span>

#include "runtime/data/image_random.h"

namespace trireme {

/// The largest changes, in both directions. 0: none.
struct ColorJitter {
  double hue = 0;         // of the circle of hues, which is 1
  double saturation = 0;  // of 0 to 1
  double value = 0;       // of 0 to 1
  bool is_off() const { return hue == 0 && saturation == 0 && value == 0; }
};

/// Adds one uniform draw of each change to all `pixels` [..., 3], red first, from 0 to 255. Saturation and
/// value stay from 0 to 1. Colors are converted to HSV (Smith, SIGGRAPH 1978).
void jitter_colors(const ColorJitter& jitter, ImageRandom& random, std::span<float> pixels);

/// The same with given changes.
void change_colors(float hue, float saturation, float value, std::span<float> pixels);

}  // namespace trireme
