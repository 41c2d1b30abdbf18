// Images for a job: from the keys of [data] to data sets.
#pragma once

#include "launcher/train/build.h"
#include "runtime/data/class_names.h"

namespace trireme {

/// True for networks of images.
bool is_image_model(const ModelSection& model);

/// The side of the network's input where data.image_size = 0 leaves it open.
std::int64_t default_image_size(const ModelSection& model);

/// open_data() and open_eval_data() for image models; data.kind is "images" or "synthetic".
JobData open_image_data(const JobConfig& config, bool read_whole);
JobData open_image_eval_data(const JobConfig& config);

/// That a label means the same in the data as in the model: compares the names of the classes in data.train,
/// data.eval and, where they are known, `saved`, which a checkpoint has; then their number and the labels
/// with model.classes. Throws Error(kInvalidInput) naming the first class that differs, both places and what
/// to do. Does nothing where there are no pictures.
void check_classes(const JobConfig& config, const JobData& data, const ClassNames& saved);

/// The shapes of a training sample.
SampleSpec image_sample_spec(const JobConfig& config);

}  // namespace trireme
