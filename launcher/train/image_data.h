// Images for a job.
#pragma once

#include "launcher/train/data_module.h"
#include "runtime/data/class_names.h"

namespace trireme {

extern const DataModule kImageData;

/// The classes of data.train, as far as they have names.
ClassNames classes_of_training(const JobConfig& config, const JobData& data);

/// That a label means the same in the data as in the model: compares the names of the classes in data.train,
/// data.eval and, where they are known, `saved`, which a checkpoint has; then their number and the labels
/// with model.classes. A model may know more classes than the data: a head of model.init_from has rows for
/// them. Throws Error(kInvalidInput) naming the first class that differs, both places and what to do. Does
/// nothing where there are no pictures.
void check_classes(const JobConfig& config, const JobData& data, const ClassNames& saved);

}  // namespace trireme
