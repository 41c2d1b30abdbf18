// MixUp and Mosaic: training samples made from several views, with several labels each.
//
// [Note: mixing groups] Sample i is mixed with its neighbours in training order: samples g, g + 1, ..., where
// g is i rounded down to a multiple of the group size. The training order is random, so these are random
// partners. A sample is still a function of the seed and its index. A thread that reads a whole group decodes
// each image once.
#pragma once

#include <functional>
#include <vector>

#include "runtime/data/image_random.h"

namespace trireme {

struct MixOptions {
  /// MixUp (Zhang et al. 2018): mixed with a partner in the proportion w : 1 - w, w from Beta(alpha, alpha).
  /// 0: off.
  double mixup_alpha = 0;
  /// Mosaic in its form for classification (RICAP, Takahashi et al. 2018): with this probability a sample is
  /// four views that meet at a point with coordinates from Beta(0.3, 0.3), and labels are weighted by area.
  /// 0: off. Other samples are mixed by MixUp, if enabled.
  double mosaic_probability = 0;

  /// Maximum number of views, and so of labels, of a sample: 1, 2 or 4.
  int group_size() const { return mosaic_probability > 0 ? 4 : mixup_alpha > 0 ? 2 : 1; }
};

/// The kinds of samples.
struct Mixture {
  struct Patch {
    int member = 0;    // the member of the group whose view is used
    int x = 0, y = 0;  // position in the sample
    int width = 0, height = 0;
    int from_x = 0, from_y = 0;  // position in the view
    float weight = 1;            // of its pixels and its label
  };
  /// Patches that share pixels (MixUp) are added.
  std::vector<Patch> patches;
  bool adds = false;
};

/// The mixture for member `own` of the group, in views of `size` x `size` pixels. Each label has the weight
/// of its patch; weights sum to 1.
Mixture draw_mixture(const MixOptions& options, int own, int size, ImageRandom random);

/// Writes the sample to `out`. `view(member)` is [size, size, 3] and must stay valid until the call returns;
/// `out` has the same shape.
void apply_mixture(const Mixture& mixture, int size, const std::function<const float*(int)>& view,
                   float* out);

/// A draw from Beta(alpha, alpha), alpha > 0, from two gamma variates (Marsaglia and Tsang 2000).
double draw_beta(double alpha, ImageRandom& random);

}  // namespace trireme
