#include "launcher/python/python_session.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <type_traits>
#include <utility>

#include "launcher/python/session.h"

namespace nb = nanobind;

namespace trireme {
namespace {

/// (number of samples, read function, fingerprint)
using DataTuple = std::optional<nb::tuple>;

/// A writable state array, fp32.
using StateArray = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
/// Name, shape of the whole tensor, first element, values.
using StatePiece = std::tuple<std::string, std::vector<std::int64_t>, std::uint64_t, StateArray>;

// The interpreter's lock is free whenever ranks work: their threads may need it.
class PythonSession {
 public:
  PythonSession(const JobConfig& config, int local, std::shared_ptr<MpiRanks> mpi, const DataTuple& train,
                const DataTuple& eval, std::optional<nb::object> loss, const OwnBlocks* blocks) {
    Session::Options options{.job = {.config = config, .data = std::nullopt},
                             .place = {.num_ranks = local, .mpi = std::move(mpi)},
                             .poll = [this] { look_for_signals(); }};
    if (train) options.job.data = data_of(config, *train, eval);
    if (blocks != nullptr) options.job.blocks = *blocks;
    if (loss) options.loss = python_loss(std::move(*loss));
    call([&] { session_ = std::make_unique<Session>(std::move(options)); });
  }
  PythonSession(const PythonSession&) = delete;
  PythonSession& operator=(const PythonSession&) = delete;
  ~PythonSession() {
    const nb::gil_scoped_release free;
    if (session_ && !session_->can_end()) static_cast<void>(session_.release());
    session_.reset();
  }

  void close() {
    const nb::gil_scoped_release free;
    if (session_ && !session_->can_end()) static_cast<void>(session_.release());
    if (session_) session_->stop_training();
    session_.reset();
  }

  Session& open() const {
    TRIREME_CHECK(session_ != nullptr, "the session is closed");
    return *session_;
  }

  nb::dict step(const HostArray& inputs, const HostArray& targets, std::optional<double> lr) {
    const Samples samples = samples_of(inputs, &targets);
    return record_of(call([&] { return open().step(samples, lr); }));
  }

  std::vector<std::vector<std::int64_t>> rounds() {
    return call([&] { return open().rounds(); });
  }
  double forward(const HostArray& inputs, const HostArray& targets, std::optional<std::int64_t> num_targets) {
    const Samples samples = samples_of(inputs, &targets);
    return static_cast<double>(call([&] { return open().forward(samples, num_targets); }));
  }
  void backward() {
    call([&] { open().backward(); });
  }
  nb::dict update(std::optional<double> lr) {
    return record_of(call([&] { return open().update(lr); }));
  }

  double evaluate(const HostArray& inputs, const HostArray& targets) {
    const Samples samples = samples_of(inputs, &targets);
    return static_cast<double>(call([&] { return open().evaluate(samples); }));
  }

  nb::dict evaluate_data() {
    const EvalMetrics metrics = call([&] { return open().evaluate_data(); });
    nb::dict record;
    record["loss"] = metrics.loss;
    record["samples"] = metrics.num_samples;
    if (metrics.top1) record["top1"] = *metrics.top1;
    if (metrics.top5) record["top5"] = *metrics.top5;
    return record;
  }

  nb::object logits(const HostArray& inputs) {
    const Samples samples = samples_of(inputs, nullptr);
    GatheredLogits logits;
    call([&] { open().logits(samples, logits); });
    return new_array(logits.values.data(), logits.shape);
  }

  std::vector<std::int32_t> generate(const std::vector<std::int32_t>& prompt, std::int64_t tokens,
                                     double temperature, std::int64_t top_k, double top_p, std::uint64_t seed,
                                     std::int64_t vocab) {
    const SamplingOptions sampling{.num_tokens = tokens,
                                   .choices = vocab,
                                   .temperature = temperature,
                                   .top_k = top_k,
                                   .top_p = top_p,
                                   .seed = seed};
    return call([&] { return open().generate(prompt, sampling); });
  }

  nb::list state_entries() {
    const std::vector<SafetensorsEntry> entries = call([&] { return open().state_entries(); });
    nb::list list;
    for (const SafetensorsEntry& entry : entries) {
      nb::list shape;
      for (const std::int64_t extent : entry.shape) shape.append(extent);
      list.append(nb::make_tuple(entry.name.c_str(), nb::tuple(shape)));
    }
    return list;
  }

  void read_state(const std::vector<StatePiece>& pieces) {
    const std::vector<NamedFloats> tensors = named(pieces);
    call([&] { open().read_state(tensors); });
  }
  void load_state(const std::vector<StatePiece>& pieces) {
    const std::vector<NamedFloats> tensors = named(pieces);
    call([&] { open().load_state(tensors); });
  }
  nb::list read_shards() {
    nb::list list;
    for (const Session::Shard& shard : call([&] { return open().read_shards(); })) {
      list.append(nb::make_tuple(shard.rank, shard.name, shard.first,
                                 new_array(shard.values.data(), {std::ssize(shard.values)})));
    }
    return list;
  }
  std::string state_hash() {
    return call([&] { return open().state_hash(); });
  }
  std::string save(const std::string& out) {
    return call([&] { return open().save(out).string(); });
  }
  void resume(const std::string& place) {
    call([&] { open().resume(place); });
  }
  void start_training(const std::string& out, bool prints) {
    call([&] { open().start_training({.out = out, .prints = prints}); });
  }
  void stop_training() {
    call([&] { open().stop_training(); });
  }

  /// Raises KeyboardInterrupt after a signal, when the training has ended with a checkpoint.
  std::optional<std::string> next_record() {
    return call([&] { return open().next_record(); });
  }

 private:
  /// Calls without the interpreter's lock. Raises what a handler of a signal raised meanwhile.
  template <class F>
  std::invoke_result_t<F&> call(F function) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      {
        const nb::gil_scoped_release free;
        function();
      }
      raise_interrupt();
    } else {
      auto result = [&] {
        const nb::gil_scoped_release free;
        return function();
      }();
      raise_interrupt();
      return result;
    }
  }
  void raise_interrupt() {
    if (interrupt_) throw nb::python_error(std::move(*std::exchange(interrupt_, nullptr)));
  }
  void look_for_signals() {
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() == 0) return;
    auto error = std::make_unique<nb::python_error>();
    if (!interrupt_) interrupt_ = std::move(error);
    if (session_) session_->request_stop();
  }

  static nb::dict record_of(const StepResult& result) {
    nb::dict record;
    record["step"] = result.step;
    record["loss"] = static_cast<double>(result.loss);
    record["grad_norm"] = static_cast<double>(result.grad_norm);
    record["loss_scale"] = static_cast<double>(result.loss_scale);
    record["skipped"] = result.skipped;
    return record;
  }

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

  static std::vector<NamedFloats> named(const std::vector<StatePiece>& pieces) {
    std::vector<NamedFloats> tensors;
    for (const auto& [name, shape, first, values] : pieces) {
      tensors.push_back({.entry = {.name = name, .dtype = "F32", .shape = shape},
                         .first = first,
                         .values = {values.data(), values.size()}});
    }
    return tensors;
  }

  std::unique_ptr<Session> session_;
  std::unique_ptr<nb::python_error> interrupt_;  // needs the interpreter's lock
};

}  // namespace

void bind_session(nb::module_& module) {
  using Free = nb::call_guard<nb::gil_scoped_release>;
  const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
  nb::class_<MpiRanks>(module, "MpiRanks")
      .def(nb::init<int>(), nb::arg("fortran_comm"), Free())
      .def(
          "fail",
          [](MpiRanks& self, const std::string& message) {
            self.fail(Error(ErrorCode::kRuntime, "{}", message));
          },
          nb::arg("message"))
      .def("end_job", &MpiRanks::end_job, Free());
  nb::class_<PythonSession>(module, "Session")
      .def(nb::init<const JobConfig&, int, std::shared_ptr<MpiRanks>, const DataTuple&, const DataTuple&,
                    std::optional<nb::object>, const OwnBlocks*>(),
           nb::arg("job"), nb::arg("local"), nb::arg("mpi").none(), nb::arg("train").none(),
           nb::arg("eval").none(), nb::arg("loss").none(), nb::arg("blocks").none())
      .def("close", &PythonSession::close)
      .def("steps_done", [](const PythonSession& self) { return self.open().steps_done(); })
      .def("is_training", [](const PythonSession& self) { return self.open().is_training(); })
      .def("step", &PythonSession::step, array("inputs"), array("targets"), nb::arg("lr").none())
      .def("engine_us", [](const PythonSession& self) { return self.open().engine_us(); })
      .def("rounds", &PythonSession::rounds)
      .def("forward", &PythonSession::forward, array("inputs"), array("targets"),
           nb::arg("num_targets").none())
      .def("backward", &PythonSession::backward)
      .def("update", &PythonSession::update, nb::arg("lr").none())
      .def("evaluate", &PythonSession::evaluate, array("inputs"), array("targets"))
      .def("evaluate_data", &PythonSession::evaluate_data)
      .def("logits", &PythonSession::logits, array("inputs"))
      .def("generate", &PythonSession::generate, nb::arg("prompt"), nb::arg("tokens"), nb::arg("temperature"),
           nb::arg("top_k"), nb::arg("top_p"), nb::arg("seed"), nb::arg("vocab"))
      .def("state_entries", &PythonSession::state_entries)
      .def("read_state", &PythonSession::read_state, array("pieces"))
      .def("load_state", &PythonSession::load_state, array("pieces"))
      .def("read_shards", &PythonSession::read_shards)
      .def("state_hash", &PythonSession::state_hash)
      .def("save", &PythonSession::save, nb::arg("out"))
      .def("resume", &PythonSession::resume, nb::arg("place"))
      .def("start_training", &PythonSession::start_training, nb::arg("out"), nb::arg("prints"))
      .def("next_record", &PythonSession::next_record)
      .def("stop_training", &PythonSession::stop_training);
}

}  // namespace trireme
