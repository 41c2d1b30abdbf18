// Python functions as the engine calls them: a data set's samples, and a loss.
#pragma once

#include "launcher/python/callback_dataset.h"
#include "launcher/python/own_loss.h"
#include "launcher/python/python_objects.h"
#include "launcher/python/samples.h"

namespace trireme {

/// `read` takes a list of indices and returns (inputs, targets), arrays of the job's shapes and dtypes.
std::shared_ptr<const Dataset> python_dataset(const JobConfig& config, std::int64_t num_samples,
                                              nanobind::object read);

/// `function` takes (logits, targets), arrays of NumPy, and returns (loss, gradient of the logits).
LossFunction python_loss(nanobind::object function);

}  // namespace trireme
