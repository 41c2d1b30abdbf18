// Image data for a job.
#pragma once

#include "launcher/data/data_module.h"
#include "runtime/data/class_names.h"

namespace trireme {

extern const DataModule kImageData;

/// Class names in data.train and data.eval, with their source; for images and documents.
ClassNames classes_of_training(const JobConfig& config, const JobData& data);
ClassNames classes_of_evaluation(const JobConfig& config, const JobData& data);

/// True if the model may have more classes than the data: with model.init_from, the checkpoint's head has
/// rows for them.
bool may_lack_classes(const JobConfig& config);

/// Checks that a label means the same in data.train, data.eval and the model. Compares the class names, then
/// their number, and the labels with model.classes. Throws Error(kInvalidInput) naming the first class that
/// differs, both places and what to do. compare_data() compares class names with a checkpoint's.
void check_classes(const JobConfig& config, const JobData& data);

}  // namespace trireme
