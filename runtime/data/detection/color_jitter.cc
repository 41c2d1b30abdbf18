#include "runtime/data/detection/color_jitter.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

/// A channel of a colour: `offset` is 5, 3, 1 for red, green, blue, and `sixths` the hue from 0 to 6.
float channel_of(float offset, float sixths, float saturation, float value) {
  float k = offset + sixths;
  if (k >= 6) k -= 6;
  const float ramp = std::clamp(std::min(k, 4 - k), 0.0f, 1.0f);
  return value * (1 - saturation * ramp);
}

/// A hue from 0 to 6; grey has 0.
float hue_sixths(float red, float green, float blue, float largest, float range) {
  if (range <= 0) return 0;
  float sixths = 0;
  if (largest == red) {
    sixths = (green - blue) / range;
  } else if (largest == green) {
    sixths = 2 + (blue - red) / range;
  } else {
    sixths = 4 + (red - green) / range;
  }
  return sixths < 0 ? sixths + 6 : sixths;
}

}  // namespace

void change_colors(float hue, float saturation, float value, std::span<float> pixels) {
  constexpr float kScale = 255;
  const float turn = 6 * (hue - std::floor(hue));
  for (std::size_t at = 0; at + 3 <= pixels.size(); at += 3) {
    const float red = pixels[at] / kScale, green = pixels[at + 1] / kScale, blue = pixels[at + 2] / kScale;
    const float largest = std::max({red, green, blue}), range = largest - std::min({red, green, blue});
    float sixths = hue_sixths(red, green, blue, largest, range) + turn;
    if (sixths >= 6) sixths -= 6;
    const float s = std::clamp((largest > 0 ? range / largest : 0) + saturation, 0.0f, 1.0f);
    const float v = std::clamp(largest + value, 0.0f, 1.0f);
    pixels[at] = kScale * channel_of(5, sixths, s, v);
    pixels[at + 1] = kScale * channel_of(3, sixths, s, v);
    pixels[at + 2] = kScale * channel_of(1, sixths, s, v);
  }
}

void jitter_colors(const ColorJitter& jitter, ImageRandom& random, std::span<float> pixels) {
  if (jitter.is_off()) return;
  const auto hue = static_cast<float>(random.uniform(-jitter.hue, jitter.hue));
  const auto saturation = static_cast<float>(random.uniform(-jitter.saturation, jitter.saturation));
  const auto value = static_cast<float>(random.uniform(-jitter.value, jitter.value));
  change_colors(hue, saturation, value, pixels);
}

}  // namespace trireme
