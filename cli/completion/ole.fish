# Fish completion of `ole`: the program itself knows what fits at the cursor (cli/completion.c).
function __ole_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    for line in ($program __complete $words[2..] "$current" 2>/dev/null)
        switch $line
            case ':files*' ':folders*'
                set -l prefix (string replace -r '^:\w+ ?' '' -- $line)
                set -l path (string sub -s (math (string length -- "$prefix") + 1) -- "$current")
                set -l complete_paths __fish_complete_path
                string match -q ':folders*' -- $line; and set complete_paths __fish_complete_directories
                for found in ($complete_paths "$path")
                    echo $prefix$found
                end
            case '*'
                echo $line
        end
    end
end
complete -c ole -f -k -a '(__ole_complete)'
