// MixUp and Mosaic: training samples made of several views, with several labels each.
//
// [Note: mixing groups] Sample i is mixed with its neighbours in training order: the views of samples g, g +
// 1, ..., where g is i rounded down to a multiple of the group's size. The order is random, so they are
// random partners; a sample still follows from the seed and its index alone; and whoever reads a whole group
// decodes each picture once.
#pragma once

#include <functional>
#include <vector>

#include "runtime/data/image_random.h"

namespace trireme {

struct MixOptions {
  /// MixUp (Zhang et al. 2018): with a partner, in the proportion w : 1 - w, w from Beta(alpha, alpha). 0:
  /// off.
  double mixup_alpha = 0;
  /// Mosaic in the form for classification (RICAP, Takahashi et al. 2018): with this probability a sample is
  /// four views patched together at a point whose coordinates are from Beta(0.3, 0.3), labels weighted by
  /// area. 0: off. Samples that are no mosaic are mixed by MixUp, where it is on.
  double mosaic_probability = 0;

  /// Views that a sample may be made of, and so labels that it has: 1, 2 or 4.
  int group_size() const { return mosaic_probability > 0 ? 4 : mixup_alpha > 0 ? 2 : 1; }
};

/// The kinds of samples.
struct Mixture {
  struct Patch {
    int member = 0;    // of the group: whose view
    int x = 0, y = 0;  // where it goes
    int width = 0, height = 0;
    int from_x = 0, from_y = 0;  // where it is taken from
    float weight = 1;            // of its pixels, and of its label
  };
  /// Patches that share pixels (MixUp) are added.
  std::vector<Patch> patches;
  bool adds = false;
};

/// The mixture of the group's member `own`, in views of `size` x `size` pixels. The weights of its labels are
/// those of its patches, and sum to 1.
Mixture draw_mixture(const MixOptions& options, int own, int size, ImageRandom random);

/// Makes the sample: `view(member)` is [size, size, 3] and stays until the call returns; `out` likewise.
void apply_mixture(const Mixture& mixture, int size, const std::function<const float*(int)>& view,
                   float* out);

/// A draw from Beta(alpha, alpha), alpha > 0: of two gamma variates (Marsaglia and Tsang 2000).
double draw_beta(double alpha, ImageRandom& random);

}  // namespace trireme
