// Training data, tokens or images: creates data sets from the keys of [data], and holds the facts that depend
// on the kind of sample.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config/config.h"
#include "parallel/layout/sample_spec.h"
#include "runtime/data/data_fingerprint.h"
#include "runtime/data/dataset.h"
#include "runtime/data/image_source.h"

namespace trireme {

class DetectionSet;

struct JobData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> eval;  // null: none
  // For data.kind = "images": the sources of the samples; eval_images may be null.
  std::shared_ptr<ImageSource> train_images, eval_images;
  // For data.kind = "detection": pictures with annotations; eval_set may be null.
  std::shared_ptr<DetectionSet> train_set, eval_set;
  // For data.kind = "documents" with labels, and "detection": class names by label.
  std::vector<std::string> train_classes, eval_classes;
  // Fingerprints of the files; null without `read_whole`.
  std::optional<DataFingerprint> train_fingerprint, eval_fingerprint;

  /// Both fingerprints, one line each, with the key.
  std::string fingerprint_text() const;
};

struct DataModule {
  DataKind kind;                     // never kSynthetic
  std::string_view source;           // what data.train names
  std::string_view throughput_unit;  // "tokens": unit of the throughput
  int max_auto_workers = 1;          // reader threads with data.workers = "auto", at most the rank's threads
  bool in_order_of_classes = false;  // samples are sorted by class, so the first ones are not representative
  bool masks_tokens = false;         // masked language modelling
  std::optional<DataKind> other_kind;                              // also supported
  SampleSpec (*sample_spec)(const JobConfig& config);              // the shapes of one training sample
  std::string (*describe_sample)(const JobConfig& config);         // "1024 tokens"
  JobData (*open)(const JobConfig& config, bool read_whole);       // see open_data()
  JobData (*open_eval)(const JobConfig& config, bool read_whole);  // see open_eval_data()
};

}  // namespace trireme
