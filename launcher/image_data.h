// Images for a job: from the keys of [data] to data sets.
#pragma once

#include "launcher/build.h"

namespace trireme {

/// True for networks of images.
bool is_image_model(const ModelSection& model);

/// The side of the network's input where data.image_size = 0 leaves it open.
std::int64_t default_image_size(const ModelSection& model);

/// open_data() and open_eval_data() for image models; data.kind is "images" or "synthetic".
JobData open_image_data(const JobConfig& config, bool read_whole);
std::shared_ptr<const Dataset> open_image_eval_data(const JobConfig& config);

/// The shapes of a training sample.
SampleSpec image_sample_spec(const JobConfig& config);

}  // namespace trireme
