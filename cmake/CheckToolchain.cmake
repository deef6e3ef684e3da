# Says in words what is missing before CMake says it in its own.
include(CheckLanguage)
check_language(C)
if(NOT CMAKE_C_COMPILER)
  message(FATAL_ERROR
    "No C compiler was found; Shepherd's kernels are compiled on your machine.\n"
    "  Debian, Ubuntu:  apt-get install build-essential\n"
    "  Fedora, RHEL:    dnf install gcc gcc-c++ make\n"
    "  macOS:           xcode-select --install\n"
    "  A compiler elsewhere is named by the environment variable CC.")
endif()

execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('include'))"
  OUTPUT_VARIABLE _include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(_include AND NOT EXISTS "${_include}/Python.h")
  message(FATAL_ERROR
    "Python.h is missing (looked in ${_include}).\n"
    "  Debian, Ubuntu:  apt-get install python3-dev\n"
    "  Fedora, RHEL:    dnf install python3-devel")
endif()

execute_process(
  COMMAND "${Python_EXECUTABLE}" -m cython --version
  RESULT_VARIABLE _no_cython OUTPUT_QUIET ERROR_QUIET)
if(_no_cython)
  message(FATAL_ERROR
    "Cython is missing for ${Python_EXECUTABLE}.\n"
    "  pip install . brings it; with --no-build-isolation or plain cmake:  pip install 'cython>=3.1'")
endif()
