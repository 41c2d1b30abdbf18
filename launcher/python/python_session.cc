#include "launcher/python/python_session.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "launcher/python/session.h"

namespace nb = nanobind;

namespace trireme {
namespace {

/// (number of samples, read function, fingerprint)
using DataTuple = std::optional<nb::tuple>;

/// A writable state array, fp32.
using StateArray = nb::ndarray<float, nb::c_contig, nb::device::cpu>;

// The interpreter's lock is free whenever ranks work: their threads may need it.
class PythonSession {
 public:
  PythonSession(const JobConfig& config, int local, const DataTuple& train, const DataTuple& eval,
                std::optional<nb::object> loss) {
    Session::Options options{.config = config, .num_ranks = local};
    if (train) options.data = data_of(config, *train, eval);
    if (loss) options.loss = python_loss(std::move(*loss));
    const nb::gil_scoped_release free;
    session_ = std::make_unique<Session>(std::move(options));
  }
  PythonSession(const PythonSession&) = delete;
  PythonSession& operator=(const PythonSession&) = delete;
  ~PythonSession() {
    if (session_ && !session_->is_of_this_process()) static_cast<void>(session_.release());  // a fork
    const nb::gil_scoped_release free;
    session_.reset();
  }

  void close() {
    const nb::gil_scoped_release free;
    if (session_ && session_->is_of_this_process()) session_->stop_training();
    session_.reset();
  }

  Session& open() const {
    TRIREME_CHECK(session_ != nullptr, "the session is closed");
    return *session_;
  }

  nb::dict step(const HostArray& inputs, const HostArray& targets, std::optional<double> lr) const {
    const Samples samples = samples_of(inputs, &targets);
    const StepResult result = [&] {
      const nb::gil_scoped_release free;
      return open().step(samples, lr);
    }();
    nb::dict record;
    record["step"] = result.step;
    record["loss"] = static_cast<double>(result.loss);
    record["grad_norm"] = static_cast<double>(result.grad_norm);
    record["loss_scale"] = static_cast<double>(result.loss_scale);
    record["skipped"] = result.skipped;
    return record;
  }

  double evaluate(const HostArray& inputs, const HostArray& targets) const {
    const Samples samples = samples_of(inputs, &targets);
    const nb::gil_scoped_release free;
    return static_cast<double>(open().evaluate(samples));
  }

  nb::dict evaluate_data() const {
    const EvalMetrics metrics = [&] {
      const nb::gil_scoped_release free;
      return open().evaluate_data();
    }();
    nb::dict record;
    record["loss"] = metrics.loss;
    record["samples"] = metrics.num_samples;
    if (metrics.top1) record["top1"] = *metrics.top1;
    if (metrics.top5) record["top5"] = *metrics.top5;
    return record;
  }

  nb::object logits(const HostArray& inputs) const {
    const Samples samples = samples_of(inputs, nullptr);
    std::vector<float> values;
    std::vector<std::int64_t> shape;
    {
      const nb::gil_scoped_release free;
      open().logits(samples, [&](std::int64_t sample, std::span<const float> of_sample, const Shape& batch) {
        if (values.empty()) {
          values.resize(of_sample.size() * static_cast<std::size_t>(samples.count));
          shape = shape_of(samples.count, static_cast<std::int64_t>(of_sample.size()), batch);
        }
        std::ranges::copy(of_sample, values.begin() + sample * std::ssize(of_sample));
      });
    }
    return new_array(values.data(), shape);
  }

  nb::list state_entries() const {
    const std::vector<SafetensorsEntry> entries = [&] {
      const nb::gil_scoped_release free;
      return open().state_entries();
    }();
    nb::list list;
    for (const SafetensorsEntry& entry : entries) {
      nb::list shape;
      for (const std::int64_t extent : entry.shape) shape.append(extent);
      list.append(nb::make_tuple(entry.name.c_str(), nb::tuple(shape)));
    }
    return list;
  }

  void read_state(const std::vector<std::string>& names, const std::vector<StateArray>& arrays) const {
    const std::vector<NamedFloats> tensors = named(names, arrays);
    const nb::gil_scoped_release free;
    open().read_state(tensors);
  }
  void load_state(const std::vector<std::string>& names, const std::vector<StateArray>& arrays) const {
    const std::vector<NamedFloats> tensors = named(names, arrays);
    const nb::gil_scoped_release free;
    open().load_state(tensors);
  }

  /// Raises KeyboardInterrupt after a signal, when the training has ended with a checkpoint.
  std::optional<std::string> next_record() const {
    std::unique_ptr<nb::python_error> interrupt;
    std::optional<std::string> record;
    {
      const nb::gil_scoped_release free;
      record = open().next_record([&] {
        const nb::gil_scoped_acquire lock;
        if (PyErr_CheckSignals() == 0) return;
        auto error = std::make_unique<nb::python_error>();
        if (!interrupt) interrupt = std::move(error);
        open().request_stop();
      });
    }
    if (interrupt) throw nb::python_error(std::move(*interrupt));
    return record;
  }

 private:
  static JobData data_of(const JobConfig& config, const nb::tuple& train, const DataTuple& eval) {
    JobData data;
    std::tie(data.train, data.train_fingerprint) = dataset_of(config, train);
    if (eval) std::tie(data.eval, data.eval_fingerprint) = dataset_of(config, *eval);
    return data;
  }
  static std::pair<std::shared_ptr<const Dataset>, DataFingerprint> dataset_of(const JobConfig& config,
                                                                               const nb::tuple& data) {
    const auto count = nb::cast<std::int64_t>(data[0]);
    return {python_dataset(config, count, data[1]),
            {.contents = fmt::format("{} samples of a Python data set", count),
             .hash = nb::cast<std::uint64_t>(data[2])}};
  }

  Samples samples_of(const HostArray& inputs, const HostArray* targets) const {
    const SampleSpec& spec = open().sample();
    check_plain(spec);
    check_array(inputs, spec.input, spec.input_dtype, "inputs");
    if (targets == nullptr)
      return {.inputs = inputs.data(), .count = static_cast<std::int64_t>(inputs.shape(0))};
    check_array(*targets, spec.target, spec.target_dtype, "targets");
    TRIREME_CHECK(inputs.shape(0) == targets->shape(0), "there are {} inputs and {} targets", inputs.shape(0),
                  targets->shape(0));
    return {.inputs = inputs.data(),
            .targets = targets->data(),
            .count = static_cast<std::int64_t>(inputs.shape(0))};
  }

  /// `batch`: the shape of a micro-batch's logits, whose first dim may hold the rows of all its samples.
  static std::vector<std::int64_t> shape_of(std::int64_t count, std::int64_t elems_per_sample,
                                            const Shape& batch) {
    std::vector<std::int64_t> shape{count};
    std::int64_t inner = 1;
    for (int i = 1; i < batch.rank(); ++i) inner *= batch.dim(i);
    if (elems_per_sample != inner) shape.push_back(elems_per_sample / inner);
    for (int i = 1; i < batch.rank(); ++i) shape.push_back(batch.dim(i));
    return shape;
  }

  static std::vector<NamedFloats> named(const std::vector<std::string>& names,
                                        const std::vector<StateArray>& arrays) {
    std::vector<NamedFloats> tensors;
    for (std::size_t i = 0; i < names.size(); ++i) {
      NamedFloats tensor{.entry = {.name = names[i], .dtype = "F32", .shape = {}},
                         .values = arrays[i].data()};
      for (std::size_t d = 0; d < arrays[i].ndim(); ++d)
        tensor.entry.shape.push_back(static_cast<std::int64_t>(arrays[i].shape(d)));
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  std::unique_ptr<Session> session_;
};

}  // namespace

void bind_session(nb::module_& module) {
  using Free = nb::call_guard<nb::gil_scoped_release>;
  const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
  nb::class_<PythonSession>(module, "Session")
      .def(nb::init<const JobConfig&, int, const DataTuple&, const DataTuple&, std::optional<nb::object>>(),
           nb::arg("job"), nb::arg("local"), nb::arg("train").none(), nb::arg("eval").none(),
           nb::arg("loss").none())
      .def("close", &PythonSession::close)
      .def("steps_done", [](const PythonSession& self) { return self.open().steps_done(); })
      .def("is_training", [](const PythonSession& self) { return self.open().is_training(); })
      .def("step", &PythonSession::step, array("inputs"), array("targets"), nb::arg("lr").none())
      .def("evaluate", &PythonSession::evaluate, array("inputs"), array("targets"))
      .def("evaluate_data", &PythonSession::evaluate_data)
      .def("logits", &PythonSession::logits, array("inputs"))
      .def("state_entries", &PythonSession::state_entries)
      .def("read_state", &PythonSession::read_state, nb::arg("names"), array("arrays"))
      .def("load_state", &PythonSession::load_state, nb::arg("names"), array("arrays"))
      .def(
          "state_hash", [](const PythonSession& self) { return self.open().state_hash(); }, Free())
      .def(
          "save",
          [](const PythonSession& self, const std::string& out) { return self.open().save(out).string(); },
          nb::arg("out"), Free())
      .def(
          "resume", [](const PythonSession& self, const std::string& place) { self.open().resume(place); },
          nb::arg("place"), Free())
      .def(
          "start_training",
          [](const PythonSession& self, const std::string& out, bool prints) {
            self.open().start_training({.out = out, .prints = prints});
          },
          nb::arg("out"), nb::arg("prints"), Free())
      .def("next_record", &PythonSession::next_record)
      .def(
          "stop_training", [](const PythonSession& self) { self.open().stop_training(); }, Free());
}

}  // namespace trireme
