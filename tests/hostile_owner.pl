# The steps of a probe in a directory whose owner is hostile: perl hostile_owner.pl SCRIPT BASE TRIES PAUSE KIND SHELL...
#
# Runs as root, here and in a guest of the lab: so it is Perl, of which every Debian has this much. SCRIPT is the file of
# the probe's script, which SHELL reads, BASE an empty directory of root's. KIND is "disk", or "small" for a file system
# with room for next to nothing that the owner fills up as well. The owner is nobody, in a process of its own: it takes
# each directory away that appears and puts another, a link, or a mount in its place, back and forth, with pauses of up
# to some PAUSE seconds. Root may mount only what the owner could by fusermount: on an empty directory of the owner's.
#
# Says how many tries there were, how far they came, and each thing of root's that is not as it was ("lost").
use strict;
use warnings;
use Fcntl qw(:DEFAULT :mode);
use IO::Handle;
use POSIX qw(mkfifo setuid setgid _exit WNOHANG);

my ($script, $base, $tries, $pause, $kind, @shell) = @ARGV;
my $NOBODY = 65534;
my @NAMES = qw(made-by-plimsoll pid data job.fio out.json out.json.gz err);
my ($MOUNT, $UMOUNT) = (165, 166);    # x86-64
my $MNT_DETACH = 2;
my ($outside, $place) = ("$base/outside", "$base/place");
my $JOB = "[r]\nrw=randread\nfilename=data\nsize=64k\nbs=16k\ndirect=1\nthread=1\nioengine=psync\nallow_file_create=0\n";

STDOUT->autoflush(1);
umask 0;

# What is root's, held open: the owner changes the names.
my %held;

sub spew {
    my ($path, $text, $mode) = @_;
    sysopen(my $file, $path, O_WRONLY | O_CREAT | O_EXCL, $mode) or die "$path: $!";
    syswrite $file, $text;
}

sub slurp {
    my ($path) = @_;
    open(my $file, "<", $path) or return "";
    local $/;
    return scalar <$file> // "";
}

sub entries {
    my ($path) = @_;
    opendir(my $directory, $path) or return ();
    return grep { $_ ne "." && $_ ne ".." } readdir $directory;
}

# --- what is root's

sub of_root {
    mkdir $outside, 0711;
    mkdir "$outside/empty", 0755;
    mkdir "$outside/session", 0700;
    for my $name (@NAMES) {
        spew("$outside/$name", "root's $name\n", 0600);
        spew("$outside/session/$name", "root's own $name\n", 0600);
    }
    mkdir $place, 0755;
    if ($kind eq "small") {
        system("mount", "-t", "tmpfs", "-o", "size=3m,nr_inodes=60", "none", $place) == 0 or die "mount";
    }
    # In the owner's directory, and not the owner's: it can be renamed.
    mkdir "$place/precious", 0700;
    mkdir "$place/backup", 0755;
    spew("$place/$_/data", "root's data in $_\n", 0600) for qw(precious backup);
    # Where others may write as well.
    mkdir "$place/shared", 0777;
    mkdir "$place/hard", 0777;
    vacate();
    if ($kind eq "disk") {
        link "$outside/$_", "$place/hard/$_" or die $! for @NAMES;
    }
    chown $NOBODY, $NOBODY, $place;
}

# A directory like one that the script has just made, but for its age. Empty, so that the owner may remove it: then there
# is another one.
sub vacate {
    mkdir "$place/vacant", 0700 or return;
    utime 1e9, 1e9, "$place/vacant";
    sysopen($held{vacant}, "$place/vacant", O_RDONLY | O_DIRECTORY) or die "vacant: $!";
}

# A line for each path, called what it is told, with all that a write, a removal or another mode would change.
sub state_of {
    my ($path, $called) = @_;
    my @stat = lstat $path or return "$called gone";
    my $told = sprintf("%s: mode %o owner %d size %d time %d", $called, @stat[2, 4, 7, 9]);
    if (S_ISREG($stat[2])) {
        (my $text = slurp($path)) =~ s/[^ -~]/?/g;
        return "$told links $stat[3] text " . substr($text, 0, 60);
    }
    return ($told, map { state_of("$path/$_", "$called/$_") } sort(entries($path)));
}

sub all_of_root {
    return map { state_of("/proc/$$/fd/" . fileno($held{$_}) . "/.", $_) } sort keys %held;
}

sub hold {
    for ($outside, map { "$place/$_" } qw(precious backup hard)) {
        sysopen($held{$_}, $_, O_RDONLY | O_DIRECTORY) or die "$_: $!";
    }
}

# --- who owns the directory

my ($to_root, $from_owner, $to_owner, $from_root);
my $done = 0;
my @TRAPS = qw(links fifos shared hard planted precious backup vacant elsewhere sibling to-empty mounted);

sub rest {
    my ($most) = @_;
    select undef, undef, undef, rand($most);
}

# Whatever of it is there already stays.
sub plant {
    my ($directory) = @_;
    symlink "$outside/$_", "$directory/$_" for @NAMES;
}

sub set {
    my ($trap) = @_;
    if ($trap eq "links" || $trap eq "planted" || $trap eq "mounted" || $trap eq "fifos") { mkdir $trap, 0777 }
    if ($trap eq "links" || $trap eq "shared") { plant($trap) }
    if ($trap eq "fifos") { mkfifo("$trap/$_", 0666) for @NAMES }
    if ($trap eq "elsewhere") { symlink "$outside/session", $trap }
    if ($trap eq "to-empty")  { symlink "$outside/empty",   $trap }
    if ($trap eq "sibling")   { symlink "backup",           $trap }
}

# Names that appeared and were not dealt with.
my %seen;
my %sprung;

sub fresh {
    return grep { /^\.plimsoll-probe-/ && !$seen{$_} } entries(".");
}

# Up to so long, or until there is a new one.
sub watch {
    my ($most) = @_;
    for (1 .. rand($most / 0.0003)) {
        last if $done || fresh();
        rest(0.0004);
    }
}

sub root_does {
    my ($what) = @_;
    print $to_root "$what\n";
    return scalar <$from_root>;
}

# With the trap in the place of the directory of this name.
sub spring {
    my ($trap, $name, $long) = @_;
    if ($trap eq "mounted") {
        root_does("mount $name");
        watch($pause * $long);
        root_does("umount $name");
        return;
    }
    if ($trap eq "planted") { rest($pause / 5); plant($name) }
    watch($pause * $long);
    if ($trap eq "planted") { unlink "$name/$_" for @NAMES }
}

sub be_hostile {
    set($_) for @TRAPS;
    print $to_root "ready\n";
    <$from_root>;
    until ($done) {
        flood() if $kind eq "small";
        for my $name (fresh()) {
            $seen{$name} = 1;
            # At once, or in the middle of what comes later.
            rest($pause * 40) if rand() < 0.5;
            until ($done || fresh()) {
                my $trap = $TRAPS[rand @TRAPS];
                rename $name, "was$name" or last;
                if (rename $trap, $name) {
                    $sprung{$trap}++;
                    spring($trap, $name, rand() < 0.3 ? 20 : 1);
                    rename $name, $trap;
                }
                set($trap);
                rename "was$name", $name or last;
                flood() if $kind eq "small";
                watch($pause);
            }
        }
    }
}

# All room, or all names, and free again.
sub flood {
    if (rand() < 0.5) {
        if (open(my $file, ">", "flood")) { syswrite($file, "x" x 65536) or last for 1 .. 50 }
    } else {
        mkfifo("flood$_", 0600) or last for 1 .. 60;
    }
    rest($pause);
    unlink "flood", map { "flood$_" } 1 .. 60;
}

# --- root, for what the owner could do by fusermount

sub mount_for_owner {
    while (my $line = <$from_owner>) {
        my ($what, $name) = split " ", $line;
        if ($what eq "mount" && sysopen(my $on, "$place/$name", O_RDONLY | O_DIRECTORY | O_NOFOLLOW)) {
            my ($type, $at, $options) = ("tmpfs", "/proc/self/fd/" . fileno($on), "mode=0700,size=1m");
            if ((stat $on)[4] == $NOBODY && syscall($MOUNT, $type, $at, $type, 0, $options) == 0) {
                # It tells of itself what it likes: a moment ago there was nothing.
                for (1 .. 20) {
                    rest($pause / 10);
                    for my $each (@NAMES) {
                        unlink "$place/$name/$each";
                        symlink "$outside/$each", "$place/$name/$each";
                    }
                }
            }
        } elsif ($what eq "umount") {
            my $at = "$place/$name";
            syscall($UMOUNT, $at, $MNT_DETACH);
        }
        print $to_owner "done\n";
    }
    _exit(0);
}

# --- the probe's steps

my %count = map { $_ => 0 } qw(filled ran cleaned refused hung);

sub step {
    my ($verb, $name, @more) = @_;
    my $said = "$base/said";
    my $pid = fork // die $!;
    if (!$pid) {
        open STDIN,  "<", "$base/job" or die $!;
        open STDOUT, ">", $said or die $!;
        open STDERR, ">", "/dev/null" or die $!;
        setpgrp;
        exec("timeout", "-k", "5", "60", @shell, "-c", slurp($script), "plimsoll-probe", $verb, $place, $name, @more)
            or _exit(99);
    }
    waitpid $pid, 0;
    $count{hung}++ if $? >> 8 == 124 || $? >> 8 == 137 || $? & 127;
    return slurp($said);
}

sub attempt {
    my ($name) = @_;
    my $filled = step("fill", $name, 1048576, 20);
    $count{refused}++ if $filled =~ /^trouble=/m;
    if ($filled =~ /^exit=0/m) {
        $count{filled}++;
        $count{ran}++ if step("run", $name, 20, "none") =~ /^exit=0/m;
        step("piece", $name, 0);
    }
    $count{cleaned}++ if step("clean", $name) =~ /^clean=yes/m;
    step("look", "${name}x") if rand() < 0.3;
}

of_root();
hold();
spew("$base/job", $JOB, 0600);
pipe $from_owner, $to_root or die $!;
pipe $from_root, $to_owner or die $!;
$_->autoflush(1) for $to_root, $to_owner;

my $owner = fork // die $!;
if (!$owner) {
    close $from_owner;
    close $to_owner;
    $SIG{TERM} = sub { $done = 1 };
    chdir $place;
    $) = "$NOBODY $NOBODY";
    setgid($NOBODY);
    setuid($NOBODY);
    die "still root" if $> != $NOBODY || $< != $NOBODY;
    be_hostile();
    print map { "sprung=$_ $sprung{$_}\n" } sort keys %sprung;
    _exit(0);
}
<$from_owner>;    # its traps are set
print $to_owner "done\n";
my $mounter = fork // die $!;
if (!$mounter) {
    close $to_root;
    close $from_root;
    mount_for_owner();
}
close $_ for $from_owner, $to_owner, $from_root, $to_root;

# One that the script would take for its own, by what it is called, were it in its directory.
my $standing = fork // die $!;
if (!$standing) {
    chdir "$outside/session";
    exec "timeout", "86400", "sleep", "86400";
}
select undef, undef, undef, 0.2 until slurp("/proc/$standing/comm") eq "timeout\n";
my @before = all_of_root();
my ($won, @was) = (0, @before);

for my $number (1 .. $tries) {
    attempt("t$number");
    vacate() if (stat $held{vacant})[3] == 0;
    my @is = all_of_root();
    $won++ if "@is" ne "@was";
    @was = @is;
    # What it took away, and what of ours was left then.
    for my $left (entries($place)) {
        system("rm", "-rf", "$place/$left") if $left =~ /^was\.plimsoll-probe-t(\d+)$/ && $1 < $number - 2;
    }
}

kill "TERM", $owner;
waitpid $owner, 0;
waitpid $mounter, 0;
my %was = map { $_ => 1 } @before;
my %is  = map { $_ => 1 } all_of_root();
print "tries=$tries\nwon=$won\n", map { "$_=$count{$_}\n" } sort keys %count;
print map { "lost=$_\n" } grep { !$is{$_} } @before;
print map { "new=$_\n" } grep { !$was{$_} } sort keys %is;
print "lost=the process in $outside/session\n" if waitpid($standing, WNOHANG) != 0;
kill "TERM", $standing;
system("umount", "-l", $place) if $kind eq "small";
