// The jobs that a key of the configuration is for: in others it would have no effect, and is refused.
//
// By model, not by data.kind: `--set data.kind=synthetic` turns a job into a measurement of its speed.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/config/config_keys.h"

namespace trireme {

/// Families of models that have a key of [model].
KeyScope for_families_with(std::string_view key);
KeyScope for_image_models();
/// Of families that are trained on masked tokens.
KeyScope for_masked_models();
/// data.crop = `crop`.
KeyScope for_crop(ViewOptions::Crop crop);
/// optimizer.name is one of `kinds`.
KeyScope for_optimizers(std::vector<OptimizerConfig::Kind> kinds);
/// optimizer.schedule = `schedule`.
KeyScope for_schedule(LrSchedule::Kind schedule);
/// checkpoint.partner.
KeyScope for_partner_copies();
/// parallel.layout = "auto".
KeyScope for_searched_layouts();

}  // namespace trireme
