// `trireme sample` of a network that denoises: pictures, a grid of them, or latents.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/train/trained_model.h"
#include "runtime/diffusion/denoising.h"

namespace trireme {

struct PictureArguments {
  std::int64_t count = 0;
  std::string grid, folder, latents;  // outputs; empty: not written
  std::string method = "ddim";
  std::int64_t num_steps = 0;  // 0: 1000 for ddpm, 50 for the others
  double guidance = 1.0;
  std::int64_t picture_class = -1;  // -1: picture i has class i modulo the number of classes
  std::string condition;            // a file like a shard of latents

  bool has_no_output() const { return grid.empty() && folder.empty() && latents.empty(); }
};

/// Throws Error(kInvalidInput), beginning with the option, for options that the model does not have. `job` is
/// the resolved job of the model. Call before loading it.
void check_picture_arguments(const PictureArguments& arguments, const JobConfig& job);

/// Makes the samples with the loaded parameters and writes the outputs.
void sample_pictures(Engine& engine, const PictureArguments& arguments, const JobConfig& job,
                     std::uint64_t seed);

}  // namespace trireme
