"""Let bots play tic-tac-toe, and print four estimators' advantages of the first episode's turns."""

import sparring

episodes = sparring.play_episodes("tic_tac_toe", ["random", "minimax"], plays=64, group_size=8)
turns = sparring.turn_table(episodes)
names = ("grpo", "rloo", "mars", "mars:no_turn_level")
print("seat turn reward " + " ".join(f"{name:>18}" for name in names))
credits = [sparring.advantages(name, turns).advantages for name in names]
for row in range((turns.episode == 0).sum()):
    figures = " ".join(f"{credit[row]:18.3f}" for credit in credits)
    print(f"{turns.seat[row]:4} {turns.turn_index[row]:4} {turns.reward[row]:6.1f} {figures}")
