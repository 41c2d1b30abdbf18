// Training data, tokens or images: from the keys of [data] to data sets, and what follows from the
// sort of samples.
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

struct JobData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> eval;  // null: none
  // Of data.kind = "images", what the samples are made from; eval_images as eval.
  std::shared_ptr<ImageSource> train_images, eval_images;
  // Of data.kind = "documents" with labels, by label.
  std::vector<std::string> train_classes, eval_classes;
  // What the files hold; nothing without `read_whole`.
  std::optional<DataFingerprint> train_fingerprint, eval_fingerprint;

  /// Both fingerprints, a line each with its key.
  std::string fingerprint_text() const;
};

struct DataModule {
  DataKind kind;                     // beside kSynthetic
  std::string_view source;           // what data.train names
  std::string_view throughput_unit;  // "tokens": what a second is counted in
  int max_auto_workers = 1;  // threads that read ahead with data.workers = "auto", where a rank has as many
  bool in_order_of_classes = false;                    // samples, so that the first ones are no fair choice
  bool masks_tokens = false;                           // masked language modelling
  bool takes_documents = false;                        // DataKind::kDocuments, too
  SampleSpec (*sample_spec)(const JobConfig& config);  // the shapes of one training sample
  std::string (*describe_sample)(const JobConfig& config);         // "1024 tokens"
  JobData (*open)(const JobConfig& config, bool read_whole);       // see open_data()
  JobData (*open_eval)(const JobConfig& config, bool read_whole);  // see open_eval_data()
};

}  // namespace trireme
