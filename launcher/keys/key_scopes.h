// Scopes of keys: the jobs in which a key has an effect. In other jobs the key is refused.
//
// Scopes depend on the model, not on data.kind, so that `--set data.kind=synthetic` works on any job to
// measure its speed.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/keys/config_keys.h"

namespace trireme {

/// Model families that have this key of [model].
KeyScope for_families_with(std::string_view key);
KeyScope for_image_models();
/// Image models and detectors.
KeyScope for_picture_models();
KeyScope for_image_classifiers();
/// Model families that detect objects.
KeyScope for_detectors();
/// Image classifiers and detectors.
KeyScope for_augmented_models();
/// Model families that denoise.
KeyScope for_diffusion_models();
/// Model families that are trained on masked tokens.
KeyScope for_masked_models();
/// Model families that are trained on separate texts.
KeyScope for_document_models();
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
