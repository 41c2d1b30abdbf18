// The predicted class of every sample of an evaluation, as a file: `trireme eval --predictions`.
#pragma once

#include <string>
#include <vector>

#include "launcher/job/build.h"
#include "launcher/report/class_report.h"

namespace trireme {

/// One JSON object per line, in the order of the data set: the sample's number, its document or picture,
/// label, predicted class and the probability of that class.
std::string predictions_text(const std::vector<ClassPrediction>& predictions, const ClassReport& report,
                             const JobData& data);

}  // namespace trireme
