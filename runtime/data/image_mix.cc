#include "runtime/data/image_mix.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

constexpr double kMosaicBeta = 0.3;  // as in the paper

double draw_gamma(double shape, ImageRandom& random) {
  if (shape < 1) {
    const double boost = std::pow(1.0 - random.uniform(), 1.0 / shape);
    return draw_gamma(shape + 1, random) * boost;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = 1.0 - random.uniform();
    if (std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

Mixture draw_mosaic(int size, ImageRandom& random) {
  const int split_x = static_cast<int>(std::lround(size * draw_beta(kMosaicBeta, random)));
  const int split_y = static_cast<int>(std::lround(size * draw_beta(kMosaicBeta, random)));
  Mixture mixture;
  for (int member = 0; member < 4; ++member) {
    const bool right = member % 2 == 1, low = member >= 2;
    Mixture::Patch patch{.member = member,
                         .x = right ? split_x : 0,
                         .y = low ? split_y : 0,
                         .width = right ? size - split_x : split_x,
                         .height = low ? size - split_y : split_y};
    patch.from_x = random.below(size - patch.width + 1);
    patch.from_y = random.below(size - patch.height + 1);
    patch.weight = static_cast<float>(static_cast<double>(patch.width) * patch.height /
                                      (static_cast<double>(size) * size));
    mixture.patches.push_back(patch);
  }
  return mixture;
}

}  // namespace

double draw_beta(double alpha, ImageRandom& random) {
  const double a = draw_gamma(alpha, random), b = draw_gamma(alpha, random);
  if (a + b > 0) return a / (a + b);
  return random.uniform() < 0.5 ? 0 : 1;  // both underflow: the limit for small alpha
}

Mixture draw_mixture(const MixOptions& options, int own, int size, ImageRandom random) {
  if (options.mosaic_probability > 0 && random.uniform() < options.mosaic_probability)
    return draw_mosaic(size, random);
  Mixture mixture{.patches = {{.member = own, .width = size, .height = size}}};
  if (options.mixup_alpha <= 0) return mixture;
  Mixture::Patch partner = mixture.patches[0];
  partner.member = own ^ 1;
  mixture.patches[0].weight = static_cast<float>(draw_beta(options.mixup_alpha, random));
  partner.weight = 1 - mixture.patches[0].weight;
  mixture.patches.push_back(partner);
  mixture.adds = true;
  return mixture;
}

void apply_mixture(const Mixture& mixture, int size, const std::function<const float*(int)>& view,
                   float* out) {
  if (mixture.adds) std::fill_n(out, static_cast<std::size_t>(size) * size * 3, 0.0f);
  for (const Mixture::Patch& patch : mixture.patches) {
    if (patch.width == 0 || patch.height == 0) continue;
    const float* const pixels = view(patch.member);
    for (int y = 0; y < patch.height; ++y) {
      const float* from = pixels + (static_cast<std::ptrdiff_t>(patch.from_y + y) * size + patch.from_x) * 3;
      float* to = out + (static_cast<std::ptrdiff_t>(patch.y + y) * size + patch.x) * 3;
      for (int i = 0; i < patch.width * 3; ++i)
        to[i] = mixture.adds ? to[i] + patch.weight * from[i] : from[i];
    }
  }
}

}  // namespace trireme
