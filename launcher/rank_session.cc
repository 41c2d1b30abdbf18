#include "launcher/rank_session.h"

#include "launcher/agreement.h"
#include "launcher/error_report.h"
#include "parallel/comm/local.h"
#include "parallel/comm/mpi.h"

namespace trireme {
namespace {

ExitCode report_agreed(const Communicator& comm, const AgreedError& error) {
  if (comm.rank() == 0) report_error(error.what());
  return exit_code(error.code());
}

ExitCode run_alone(const std::function<ExitCode(const std::shared_ptr<Communicator>&)>& body) {
  const auto comm = LocalWorld(1).communicator(0);
  try {
    return body(comm);
  } catch (const AgreedError& error) {
    return report_agreed(*comm, error);
  }
}

}  // namespace

ExitCode run_as_rank(const LaunchEnvironment& launch,
                     const std::function<ExitCode(const std::shared_ptr<Communicator>&)>& body) {
  if (!launch.under_mpi()) return run_alone(body);
  const MpiSession session;
  const auto& comm = session.world();
  try {
    return body(comm);
  } catch (const AgreedError& error) {
    return report_agreed(*comm, error);
  } catch (const std::exception& error) {
    // Does not return: others may be waiting for this rank, so the job ends here.
    comm->abort("trireme: error: " + naming_rank(comm->rank(), error.what()));
    return ExitCode::kFailed;
  }
}

}  // namespace trireme
