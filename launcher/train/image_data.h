// Images for a job.
#pragma once

#include "launcher/train/data_module.h"
#include "runtime/data/class_names.h"

namespace trireme {

extern const DataModule kImageData;

/// The names of the classes in data.train and in data.eval, with their place; of pictures or documents.
ClassNames classes_of_training(const JobConfig& config, const JobData& data);
ClassNames classes_of_evaluation(const JobConfig& config, const JobData& data);

/// True where the model may know more classes than the data: a head of model.init_from has rows for them.
bool may_lack_classes(const JobConfig& config);

/// That a label means the same in data.train, data.eval and the model: compares the names of the classes,
/// then their number and the labels with model.classes. Throws Error(kInvalidInput) naming the first class
/// that differs, both places and what to do. compare_data() compares them with those of a checkpoint.
void check_classes(const JobConfig& config, const JobData& data);

}  // namespace trireme
