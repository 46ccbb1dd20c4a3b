#include "parallel/transport/mpi_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/transport/process_shared_memory.h"

namespace gemel::parallel {
namespace {

constexpr int kNoteTag = Communicator::kTags + 1;       // beside those of messages and of the making of groups
constexpr std::size_t kLargest = std::size_t{1} << 30;  // bytes of one message of MPI's, whose counts are int

void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw CommError(fmt::format("MPI: {}: {}", what, std::string_view(text.data(), at(length))));
}

/// Open MPI copies between ranks of a machine by a system call that containers refuse; it notices that at the first message, with lines of its own. A variable
/// that is set stands.
void choose_copies() {
  std::array<char, 1> from{1}, to{};
  const iovec there{from.data(), from.size()}, here{to.data(), to.size()};
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;  // Open MPI declares itself for 1; from 2 on it takes a privilege
  if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1 && (scope < 2 || ::geteuid() == 0)) return;
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);  // of version 4
  ::setenv("OMPI_MCA_smsc", "^cma", 0);                             // of version 5
}

/// Open MPI 5 asks the kernel for its way to the other ranks and says that there is none to those of the same machine, in two lines a rank. Where all
/// are, which it needs no network for, it goes by the addresses alone, as before.
void find_others_by_address() {
  const char *here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *all = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (here && all && std::string_view(here) == all) ::setenv("OMPI_MCA_reachable", "weighted", 0);
}

/// Each rank of a machine has 16 MiB of it for messages; Open MPI 5 ends where it finds no room.
void choose_shared_memory() {
  constexpr std::uint64_t kOfRank = std::uint64_t{16} << 20;
  struct statvfs room {};
  if (::statvfs("/dev/shm", &room) == 0 && room.f_bavail * room.f_frsize >= kOfRank && ::access("/dev/shm", W_OK) == 0) return;
  std::error_code none;
  const std::string folder = std::filesystem::temp_directory_path(none).string();
  if (none) return;
  for (const char* variable : {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"}) ::setenv(variable, folder.c_str(), 0);
}

/// MPI between its initialisation and its end, which one thread sees.
class Runtime {
 public:
  Runtime() {
    choose_copies();
    find_others_by_address();
    choose_shared_memory();
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "it cannot be initialised");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (provided < MPI_THREAD_FUNNELED) throw CommError("MPI: it does not run in a program with threads; accepted: MPI_THREAD_FUNNELED");
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime() {
    if (ends_in_order()) MPI_Finalize();  // it waits for ranks, which may be lost or know of no error
  }
  void check_thread() const {
    if (std::this_thread::get_id() != thread_) throw InternalError("MPI: called from another thread than the one that initialised it");
  }
  AbortFlag abort;
  /// Where an error ends this rank nobody is waited for.
  bool ends_in_order() const { return !abort.raised() && std::uncaught_exceptions() == 0; }

  // Notes of all communicators travel in the job's: a group may be gone on one side when they arrive, and its number be another group's.
  void post(int to, const std::string& of, const Note& note) {
    check_thread();
    std::erase_if(posted_, has_left);
    Posted& posted = *posted_.emplace_back(std::make_unique<Posted>(Posted{{std::hash<std::string>()(of), note}}));
    check(MPI_Isend(&posted.letter, sizeof posted.letter, MPI_BYTE, to, kNoteTag, MPI_COMM_WORLD, &posted.request), "a message cannot be begun");
  }
  bool all_have_left() { return std::erase_if(posted_, has_left), posted_.empty(); }
  /// The next one that was told of a communicator. Its rank is that of the job.
  std::optional<Notes::Heard> next_note(const std::string& of) {
    check_thread();
    for (;;) {
      int there = 0;
      MPI_Status status;
      check(MPI_Iprobe(MPI_ANY_SOURCE, kNoteTag, MPI_COMM_WORLD, &there, &status), "messages cannot be looked for");
      if (!there) break;
      Letter letter;
      check(MPI_Recv(&letter, sizeof letter, MPI_BYTE, status.MPI_SOURCE, kNoteTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "a message failed");
      heard_[letter.of].push_back({status.MPI_SOURCE, letter.note});
    }
    auto& mine = heard_[std::hash<std::string>()(of)];
    if (mine.empty()) return std::nullopt;
    const Notes::Heard first = mine.front();
    mine.pop_front();
    return first;
  }

 private:
  struct Letter {
    std::size_t of = 0;  // its communicator, by the hash of its name
    Note note;
  };
  struct Posted {
    Letter letter;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  static bool has_left(const std::unique_ptr<Posted>& posted) {
    int done = 0;
    check(MPI_Test(&posted->request, &done, MPI_STATUS_IGNORE), "a message failed");
    return done != 0;
  }
  std::list<std::unique_ptr<Posted>> posted_;
  std::map<std::size_t, std::deque<Notes::Heard>> heard_;
  std::thread::id thread_ = std::this_thread::get_id();
};

/// A communicator of MPI's, freed where it is not the world.
class Handle {
 public:
  explicit Handle(MPI_Comm comm) : comm_(comm) {}
  Handle(Handle&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (comm_ != MPI_COMM_NULL && comm_ != MPI_COMM_WORLD) MPI_Comm_free(&comm_);
  }
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_;
};

bool all_done(std::vector<MPI_Request>& requests) {
  int done = 0;
  check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "a message failed");
  return done != 0;
}

/// Of a communicator that outlives it.
class MpiTransfer : public Transfer::State {
 public:
  MpiTransfer(std::vector<MPI_Request> requests, const WaitPolicy& policy, Communicator& of, const Participation::Message& message)
      : requests_(std::move(requests)), policy_(policy), of_(of), message_(message) {}
  ~MpiTransfer() override {
    // Given up by an error. What is not on its way yet never will be; of the rest MPI may still read or write the memory, which the process then gives up as
    // well.
    for (MPI_Request& r : requests_) {
      if (r == MPI_REQUEST_NULL) continue;
      if (!message_.sent) MPI_Cancel(&r);
      MPI_Request_free(&r);
    }
  }
  void wait() override {
    const Participation::Awaited awaited(of_.participation(), message_);
    poll_until([this] { return all_done(requests_); }, policy_, of_.waits());
  }

 private:
  std::vector<MPI_Request> requests_;
  const WaitPolicy& policy_;
  Communicator& of_;
  Participation::Message message_;
};

std::optional<MPI_Datatype> mpi_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return MPI_FLOAT;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int64:
      return MPI_INT64_T;
    default:
      return std::nullopt;
  }
}
MPI_Op mpi_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::min:
      return MPI_MIN;
    case Reduction::max:
      return MPI_MAX;
    case Reduction::product:
      return MPI_PROD;
    case Reduction::bit_and:
      return MPI_BAND;
    default:
      return MPI_SUM;
  }
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(const Member& self, Handle handle, std::shared_ptr<Runtime> runtime, std::string name)
      : Communicator(self), runtime_(std::move(runtime)), handle_(std::move(handle)), name_(std::move(name)), numbers_(self.numbers) {
    if (this->placement().cores[at(this->rank())] == 0) policy_.spin_ns = 0;
    if (local_size() == 1) return;
    shared_ = ProcessGroup::make(*this, this->waits());
    if (shared_) shared_->policy() = policy_;
  }
  /// The end of MPI waits for all ranks anyway; here they still hear each other.
  ~MpiCommunicator() override {
    if (!runtime_->ends_in_order()) return;
    try {
      goodbye();
      if (handle_.get() == MPI_COMM_WORLD)
        poll_until([this] { return participation().all_ended() && runtime_->all_have_left(); }, {.spin_ns = 0}, runtime_->abort);
    } catch (const std::exception&) {
      // An abort meanwhile: whoever called for it tells why.
    }
  }

  Transfer send(int to, std::span<const std::byte> bytes, int tag) override {
    return each_part(bytes.size(), participation().sends(to), [&](std::size_t begin, int count, MPI_Request* request) {
      return MPI_Isend(bytes.data() + begin, count, MPI_BYTE, to, tag, handle_.get(), request);
    });
  }
  Transfer receive(int from, std::span<std::byte> bytes, int tag) override {
    return each_part(bytes.size(), participation().receives(from), [&](std::size_t begin, int count, MPI_Request* request) {
      return MPI_Irecv(bytes.data() + begin, count, MPI_BYTE, from, tag, handle_.get(), request);
    });
  }
  std::string_view carrier() const override { return "mpi"; }
  std::unique_ptr<Communicator> group(std::span<const int> ranks) override {
    runtime_->check_thread();
    meet(ranks);
    MPI_Group all, some;
    check(MPI_Comm_group(handle_.get(), &all), "a group cannot be made");
    check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some), "a group cannot be made");
    MPI_Comm comm = MPI_COMM_NULL;
    const int made = MPI_Comm_create_group(handle_.get(), some, kTags, &comm);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    check(made, "a group cannot be made");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const auto self = std::ranges::find(ranks, rank());
    const std::string list = fmt::format("{}", fmt::join(ranks, ","));
    return std::make_unique<MpiCommunicator>(Member{static_cast<int>(self - ranks.begin()), placement().part(ranks), waits_of_rank(), numbers_of(ranks)},
                                             Handle(comm), runtime_, fmt::format("{}/{}#{}", name_, list, groups_[list]++));
  }
  SharedGroup* shared() override { return shared_.get(); }
  bool carrier_all_reduce(const Elements& data, Reduction reduction) override {
    runtime_->check_thread();
    const auto type = mpi_type(data.dtype);
    if (!type) return false;
    wait_for_all();  // what follows cannot be ended
    constexpr std::int64_t kStep = std::int64_t{1} << 28;
    for (std::int64_t i = 0; i < data.count; i += kStep) {
      const Elements part = data.part(i, std::min(kStep, data.count - i));
      check(MPI_Allreduce(MPI_IN_PLACE, part.first, static_cast<int>(part.count), *type, mpi_op(reduction), handle_.get()), "its all-reduce failed");
    }
    return true;
  }
  void wait_as(const WaitPolicy& policy) override {
    policy_ = policy;
    if (shared_) shared_->policy() = policy;
  }
  void abort(const std::string& why) override { runtime_->abort.raise(why); }

 private:
  /// Before a call of MPI's that cannot be ended: whoever waits here for a rank that has ended is told.
  void meet(std::span<const int> ranks) {
    const std::byte here{};
    std::vector<std::byte> heard(ranks.size());
    std::vector<Transfer> transfers;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] == rank()) continue;
      transfers.push_back(receive(ranks[i], std::span(&heard[i], 1), 0));
      transfers.push_back(send(ranks[i], std::span(&here, 1), 0));
    }
    for (Transfer& t : transfers) t.wait();
  }
  void wait_for_all() {
    std::vector<MPI_Request> request(1);
    check(MPI_Ibarrier(handle_.get(), request.data()), "its barrier cannot be begun");
    poll_until([&] { return all_done(request); }, policy_, waits());
  }
  template <class Begin>
  Transfer each_part(std::size_t bytes, const Participation::Message& message, const Begin& begin_part) {
    runtime_->check_thread();
    std::vector<MPI_Request> requests(std::max<std::size_t>(1, (bytes + kLargest - 1) / kLargest), MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::size_t begin = i * kLargest;
      check(begin_part(begin, static_cast<int>(std::min(kLargest, bytes - begin)), &requests[i]), "a message cannot be begun");
    }
    return Transfer(std::make_unique<MpiTransfer>(std::move(requests), policy_, *this, message));
  }
  void tell(int to, const Note& note) override { runtime_->post(numbers_[at(to)], name_, note); }
  std::optional<Heard> hear() override {
    std::optional<Heard> heard = runtime_->next_note(name_);
    if (heard) heard->from = static_cast<int>(std::ranges::find(numbers_, heard->from) - numbers_.begin());
    return heard;
  }
  std::shared_ptr<Runtime> runtime_;
  Handle handle_;
  std::string name_;                   // the same on its ranks, and no other's
  std::vector<int> numbers_;           // [rank] in the job
  std::map<std::string, int> groups_;  // made so far, by their ranks
  WaitPolicy policy_;
  std::unique_ptr<SharedGroup> shared_;
};

/// @throws CommError where it holds no number
std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  if (error != std::errc() || *end != '\0' || value < 0)
    throw CommError(fmt::format("{}: '{}' is not accepted; accepted: digits, as mpirun sets them", variable, text));
  return value;
}

/// What each rank says of itself.
struct Machine {
  static constexpr std::size_t kLongestName = 256, kMostProcessors = 4096;  // later ones are not told, which lets ranks there seem to share them
  std::array<char, kLongestName> host{};
  std::array<std::uint8_t, kMostProcessors / 8> processors{};
  double quota = 0;  // 0: none
  std::int64_t of_machine = 1;

  static Machine here() {
    Machine out;
    ::gethostname(out.host.data(), kLongestName - 1);
    const AllowedCores cores = allowed_cores();
    for (const int p : cores.processors)
      if (at(p) < kMostProcessors) out.processors[at(p) / 8] |= static_cast<std::uint8_t>(1 << (p % 8));
    out.quota = cores.quota.value_or(0);
    out.of_machine = cores.of_machine;
    return out;
  }
  AllowedCores cores() const {
    AllowedCores out;
    for (int p = 0; at(p) < kMostProcessors; ++p)
      if ((processors[at(p) / 8] >> (p % 8)) & 1) out.processors.push_back(p);
    if (quota > 0) out.quota = quota;
    out.of_machine = static_cast<int>(of_machine);
    return out;
  }
};

Placement placement_of_all(int size) {
  const Machine mine = Machine::here();
  std::vector<Machine> all(at(size));
  constexpr int kBytes = sizeof(Machine);
  check(MPI_Allgather(&mine, kBytes, MPI_BYTE, all.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD), "machines cannot be exchanged");
  std::vector<std::string> hosts;
  std::vector<AllowedCores> allowed;
  for (const Machine& m : all) {
    hosts.emplace_back(m.host.data());
    allowed.push_back(m.cores());
  }
  return Placement::of(std::move(hosts), allowed);
}

}  // namespace

std::optional<MpiLaunch> mpi_launch() {
  struct Variables {
    const char *rank, *size;
  };
  constexpr Variables kKnown[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"PMIX_RANK", "SLURM_NTASKS"}};
  for (const Variables& v : kKnown)
    if (const auto rank = number_in(v.rank), size = number_in(v.size); rank && size) {
      if (*rank >= *size) throw CommError(fmt::format("{}: {} is not a rank of {} ({}); accepted: one of 0..{}", v.rank, *rank, *size, v.size, *size - 1));
      return MpiLaunch{*rank, *size};
    }
  return std::nullopt;
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "its version is not known");
  return {text.data(), at(length)};
}

std::unique_ptr<Communicator> mpi_communicator() {
  const auto runtime = std::make_shared<Runtime>();
  int rank = 0, size = 1;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "the rank is not known");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "the number of ranks is not known");
  if (const auto launch = mpi_launch(); launch && launch->size != size)  // each would train for itself, and all write the same files
    throw CommError(fmt::format(
        "mpi: the environment says that {} ranks were started, and MPI has {}; accepted: gemel launch, mpirun of this Open MPI, or srun with --mpi=pmix",
        launch->size, size));
  Placement placement = placement_of_all(size);
  std::vector<int> all(at(size));
  std::iota(all.begin(), all.end(), 0);
  auto waits = std::make_shared<RankWaits>(runtime->abort, placement.hosts);
  return std::make_unique<MpiCommunicator>(Communicator::Member{rank, std::move(placement), std::move(waits), all}, Handle(MPI_COMM_WORLD), runtime, "all");
}

}  // namespace gemel::parallel
