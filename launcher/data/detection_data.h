// Pictures with boxes for detectors.
#pragma once

#include "launcher/data/data_module.h"

namespace trireme {

extern const DataModule kDetectionData;

/// The number of classes that data.train has, from its annotations. Throws Error(kInvalidInput) with the key
/// for annotations that cannot be read.
std::int64_t count_detection_classes(const JobConfig& config);

/// Throws Error(kInvalidInput), naming the key, for values of [data] that a detector with maps of
/// `coarsest_stride` cannot be trained with.
void check_detection_keys(const JobConfig& config, std::int64_t coarsest_stride);

}  // namespace trireme
