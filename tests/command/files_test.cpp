// Files of the command: what is read and written, and that a bad file is an error that names the place.
#include "files.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace mmaemu::command {
namespace {

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "mmaemu-files-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // What reading a file says; empty where it succeeds.
  static std::string problem(const std::string& path, std::optional<FormatId> codes_as = {}) {
    try {
      read_matrix(path, codes_as);
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

std::string npy(const std::string& dict, const std::string& data, char major = 1) {
  std::string header("\x93NUMPY", 6);
  header += major;
  header += '\0';
  const std::size_t length = dict.size() + 1;
  header += static_cast<char>(length & 0xFF);
  header += static_cast<char>(length >> 8);
  if (major > 1) header += std::string(2, '\0');
  return header + dict + "\n" + data;
}

std::string safetensors(const std::string& json, const std::string& data) {
  const std::uint64_t length = json.size();
  std::string size(8, '\0');
  std::memcpy(size.data(), &length, 8);
  return size + json + data;
}

const std::string kCodes = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }";
const std::string kTensor = R"({"x":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[0,6]}})";

TEST_F(Files, EveryFormatIsWrittenAndReadBack) {
  for (const Format& f : kFormats) {
    Matrix matrix{f.id, 3, 5, std::vector<std::uint8_t>(static_cast<std::size_t>(15 * f.bytes()))};
    for (std::size_t i = 0; i < matrix.bytes.size(); ++i)
      matrix.bytes[i] = static_cast<std::uint8_t>(17 * i + 3);
    for (const char* const name : {"m.npy", "m.safetensors"}) {
      write_matrix(path(name), matrix);
      const Matrix back = read_matrix(path(name), f.id);
      EXPECT_EQ(back.format, f.id);
      EXPECT_EQ(back.rows, 3);
      EXPECT_EQ(back.columns, 5);
      EXPECT_EQ(back.bytes, matrix.bytes);
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2) << "temporary files stay";
}

TEST_F(Files, AnArrayBeginsAtAMultipleOf64Bytes) {
  write_matrix(path("m.npy"), {FormatId::e4m3, 1, 1, {0x38}});
  EXPECT_EQ(read(path("m.npy")).size() % 64, 1U);
}

TEST_F(Files, ShapesOfFewerDimensionsAreARow) {
  const std::string vector = "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }";
  const Matrix row = read_matrix(write("v.npy", npy(vector, "abcdef")), FormatId::e4m3);
  EXPECT_EQ(row.rows, 1);
  EXPECT_EQ(row.columns, 6);
}

TEST_F(Files, NpyVersionsOneToThreeAreRead) {
  for (const char major : {'\1', '\2', '\3'})
    EXPECT_EQ(problem(write("v.npy", npy(kCodes, "abcdef", major)), FormatId::e5m2), "") << int{major};
}

// numpy has no names for ml_dtypes' types; what it writes then differs among its versions.
TEST_F(Files, ArraysOfMlDtypesAreCodes) {
  for (const char* const descr : {"<V1", "|V1", "<f1"}) {
    const std::string dict =
        "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (2, 3), }";
    EXPECT_EQ(read_matrix(write("m.npy", npy(dict, "abcdef")), FormatId::e5m2).format, FormatId::e5m2);
    EXPECT_NE(problem(path("m.npy")), "") << "of which format?";
  }
  const std::string dict = "{'descr': '<V2', 'fortran_order': False, 'shape': (1, 3), }";
  EXPECT_EQ(read_matrix(write("m.npy", npy(dict, "abcdef")), FormatId::bfloat16).columns, 3);
}

TEST_F(Files, AFileWithoutEndThatIsNoArrayIsNotReadToIt) {
  EXPECT_EQ(problem("/dev/zero"), "/dev/zero: at byte 0: neither a .npy file nor named .safetensors");
}

TEST_F(Files, LargeFilesAreReadWhole) {
  Matrix matrix{FormatId::e4m3, 5000, 8000, std::vector<std::uint8_t>(40'000'000)};
  std::mt19937 random(1);
  for (std::uint8_t& code : matrix.bytes) code = static_cast<std::uint8_t>(random());
  write_matrix(path("m.npy"), matrix);
  EXPECT_EQ(read_matrix(path("m.npy"), FormatId::e4m3).bytes, matrix.bytes);
}

TEST_F(Files, ATensorIsNamedOrTheOnlyOne) {
  const std::string two =
      R"({"__metadata__":{"a":"b"},"x":{"dtype":"F8_E4M3","shape":[1,2],"data_offsets":[0,2]},)"
      R"("y":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[2,5]}})";
  const std::string file = write("t.safetensors", safetensors(two, "abcde"));
  EXPECT_EQ(read_matrix(file + ":y", {}).bytes, (std::vector<std::uint8_t>{'c', 'd', 'e'}));
  EXPECT_EQ(read_matrix(file + ":x", {}).format, FormatId::e4m3);
  EXPECT_NE(problem(file).find("append :NAME; there are x, y"), std::string::npos);
  EXPECT_NE(problem(file + ":z").find("has no tensor \"z\"; there are x, y"), std::string::npos);
}

TEST_F(Files, ABadFileIsAnErrorThatNamesFileAndPlace) {
  const auto dict = [](const std::string& descr, const std::string& order, const std::string& shape) {
    return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  };
  const struct {
    std::string name;
    std::string bytes;
    std::string says;
  } cases[] = {
      {"empty.npy", "", "at byte 0: neither a .npy file"},
      {"text.npy", "hello, world", "at byte 0: neither a .npy file"},
      {"short.npy", "\x93NUMPY", "at byte 6: the file ends"},
      {"version.npy", npy(kCodes, "abcdef", 9), "at byte 6: version 9"},
      {"long.npy", npy(kCodes, "abcdef").substr(0, 40), "at byte 8: a header of 60 bytes goes beyond"},
      {"cut.npy", npy(kCodes, "abc"), "at byte 70: the file ends before the 2 x 3 array"},
      {"more.npy", npy(kCodes, "abcdefgh"), "at byte 76: 2 bytes after the array"},
      {"order.npy", npy(dict("|u1", "True", "(2, 3)"), "abcdef"), "column-major"},
      {"big.npy", npy(dict(">f4", "False", "(1,)"), "abcd"), "at byte 20: big-endian"},
      {"double.npy", npy(dict("<f8", "False", "(1,)"), "abcdefgh"), "an array of \"<f8\""},
      {"wide.npy", npy(dict("<u2", "False", "(1,)"), "ab"), "integers of 16 bits, but e4m3 has 8"},
      {"three.npy", npy(dict("|u1", "False", "(1, 2, 3)"), "abcdef"), "3 dimensions"},
      {"negative.npy", npy(dict("|u1", "False", "(-1, 2)"), "ab"), "a dimension of -1"},
      {"huge.npy", npy(dict("|u1", "False", "(4294967296, 4294967296)"), "ab"), "the file ends before"},
      {"digits.npy", npy(dict("|u1", "False", "(99999999999999999999,)"), "ab"), "no 64-bit integer"},
      {"key.npy", npy("{'descr': '|u1', 'x': False}", ""), "at byte 27: unknown key \"x\""},
      {"keys.npy", npy("{'descr': '|u1', }", ""), "needs descr, fortran_order and shape"},
      {"twice.npy", npy("{'descr': '|u1', 'descr': '|u1', 'shape': (1,)}", "a"),
       "at byte 27: key \"descr\" is there twice"},
      {"tail.npy", npy(kCodes + " 1", "abcdef"), "text after the header's dict"},
      {"s.safetensors", "abc", "at byte 3: the file ends"},
      {"header.safetensors", safetensors(kTensor, "").substr(0, 20), "at byte 0: a header of"},
      {"huge.safetensors", std::string(8, '\xFF') + "abc",
       "at byte 0: a header of 18446744073709551615 bytes"},
      {"json.safetensors", safetensors("{\"x\":}", ""), "at byte 13: the header is not JSON"},
      {"list.safetensors", safetensors("[1]", ""), "not a JSON object"},
      {"none.safetensors", safetensors("{}", ""), "there are none"},
      {"dtype.safetensors",
       safetensors(R"({"x":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "abcdefgh"),
       "tensor \"x\" is I64"},
      {"fields.safetensors", safetensors(R"({"x":{"dtype":"F32"}})", ""), "tensor \"x\" has no data_offsets"},
      {"value.safetensors", safetensors(R"({"x":3})", ""), "tensor \"x\" has no data_offsets"},
      {"shape.safetensors", safetensors(R"({"x":{"dtype":"F32","data_offsets":[0,0]}})", ""),
       "lacks dtype or shape"},
      {"three.safetensors",
       safetensors(R"({"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1,2]}})", "a"),
       "are not two sizes"},
      {"half.safetensors",
       safetensors(R"({"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,0.5]}})", "a"),
       "are not two sizes"},
      {"trailing.safetensors", safetensors(kTensor, "abcdefgh"), "at byte 74: 2 bytes after the last tensor"},
      {"twice.safetensors",
       safetensors(R"({"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]},)"
                   R"("x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[1,2]}})",
                   "ab"),
       "tensor \"x\" is there twice"},
      {"overlap.safetensors",
       safetensors(R"({"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                   R"("y":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[1,3]}})",
                   "abc"),
       "tensor \"y\" overlaps another"},
      {"gap.safetensors",
       safetensors(R"({"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]},)"
                   R"("y":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[2,3]}})",
                   "abc"),
       "bytes before tensor \"y\" that belong to none"},
      {"outside.safetensors", safetensors(kTensor, "abcde"), "not within the file"},
      {"backward.safetensors",
       safetensors(R"({"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[2,1]}})", "abc"),
       "not within the file"},
      {"minus.safetensors",
       safetensors(R"({"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[-1,0]}})", "abc"),
       "are not two sizes"},
      {"size.safetensors",
       safetensors(R"({"x":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,3]}})", "abc"),
       "has 3 bytes, which its shape"},
  };
  for (const auto& c : cases) {
    const std::string file = write(c.name, c.bytes);
    const std::string said = problem(file, FormatId::e4m3);
    EXPECT_TRUE(said.starts_with(file + ": ")) << said;
    EXPECT_NE(said.find(c.says), std::string::npos) << c.name << ": " << said;
  }
  EXPECT_NE(problem(path("missing.npy")).find("missing.npy: No such file"), std::string::npos);
  EXPECT_NE(problem(folder_).find("is a folder"), std::string::npos);
  EXPECT_NE(problem(write("codes.npy", npy(kCodes, "abcdef"))).find("say what they are codes of"),
            std::string::npos);
}

// Bytes changed, dropped and added at random places: an error or a matrix whose size is right.
TEST_F(Files, DamagedFilesNeverDoWorse) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string good[] = {npy(kCodes, "abcdef"), safetensors(kTensor, "abcdef")};
  int read_well = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = good[i % 2];
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % bytes.size();
      if (random() % 3 == 0)
        bytes.erase(at, 1 + random() % 3);
      else if (random() % 3 == 0)
        bytes.insert(at, 1, static_cast<char>(random()));
      else
        bytes[at] = static_cast<char>(
            random() % 4 == 0 ? random() : static_cast<unsigned char>(bytes[at]) ^ 1U << random() % 8);
      if (bytes.empty()) bytes = "x";
    }
    const std::string file = write(i % 2 == 0 ? "d.npy" : "d.safetensors", bytes);
    try {
      const Matrix matrix = read_matrix(file, FormatId::e4m3);
      EXPECT_EQ(matrix.bytes.size(),
                static_cast<std::size_t>(matrix.rows * matrix.columns * format(matrix.format).bytes()));
      ++read_well;
    } catch (const FileError&) {
    }
  }
  EXPECT_GT(read_well, 0);
  EXPECT_LT(read_well, 3000);
}

TEST_F(Files, AFileThatCannotBeWrittenLeavesTheOldOne) {
  EXPECT_THROW(write_matrix(path("no/such/folder.npy"), {FormatId::e4m3, 1, 1, {0x38}}), FileError);
  write("kept.npy", "old");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit little{.rlim_cur = 1000, .rlim_max = limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  EXPECT_THROW(write_matrix(path("kept.npy"), {FormatId::e4m3, 1, 2000, std::vector<std::uint8_t>(2000)}),
               FileError);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read(path("kept.npy")), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "temporary files stay";
}

TEST_F(Files, AScaleIsANumberOrAFileWithOne) {
  EXPECT_EQ(read_scale("0.5"), 0.5F);
  EXPECT_EQ(read_scale("-1e-3"), -1e-3F);
  const float number = 0.25F;
  Matrix matrix{FormatId::float32, 1, 1, std::vector<std::uint8_t>(4)};
  std::memcpy(matrix.bytes.data(), &number, 4);
  write_matrix(path("s.npy"), matrix);
  EXPECT_EQ(read_scale(path("s.npy")), 0.25F);
  write_matrix(path("x.npy"), {FormatId::float16, 1, 1, {0, 0}});
  EXPECT_THROW(read_scale(path("x.npy")), FileError);
  EXPECT_THROW(read_scale("half"), FileError);
}

}  // namespace
}  // namespace mmaemu::command
